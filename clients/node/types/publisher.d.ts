/** @typedef {{ exchange?: string, routingKey: string, content: Buffer, options?: import('amqplib').Options.Publish }} Outgoing */
/**
 * Publishes one message on a confirm channel, persistent and with a message id, and waits until the broker has it. It rejects if
 * the broker refuses the message, if no queue takes it, or if the channel is closed first: then it may or may not be published,
 * so publish it again with the same id.
 * @param {import('amqplib').ConfirmChannel} channel
 * @param {Outgoing} message
 * @returns {Promise<string>} the message id
 */
export function publish(channel: import("amqplib").ConfirmChannel, { exchange, routingKey, content, options }: Outgoing): Promise<string>;
export type Outgoing = {
    exchange?: string;
    routingKey: string;
    content: Buffer;
    options?: import("amqplib").Options.Publish;
};
