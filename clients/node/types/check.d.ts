/**
 * Why the dead-letter route is known to be broken; undefined if it is not.
 * @param {any} model
 * @param {string} queue
 * @param {QueueFacts} facts
 * @returns {Promise<Error | undefined>}
 */
export function checkRoute(model: any, queue: string, facts: QueueFacts): Promise<Error | undefined>;
/**
 * Refuses a queue whose messages would be lost or reordered, or cannot be checked by AMQP.
 * @param {any} model
 * @param {{ queue: string, vhost: string, maxRetries: number, allowDrop: boolean }} need
 * @returns {Promise<QueueFacts>}
 */
export function checkQueue(model: any, need: {
    queue: string;
    vhost: string;
    maxRetries: number;
    allowDrop: boolean;
}): Promise<QueueFacts>;
/**
 * What is wrong with a queue, and what to do; empty if nothing is known to be.
 * @param {QueueFacts} facts
 * @param {number} version major * 100 + minor; 0: not known
 * @param {{ maxRetries: number, allowDrop: boolean }} need
 * @returns {string}
 */
export function judge({ type, args }: QueueFacts, version: number, { maxRetries, allowDrop }: {
    maxRetries: number;
    allowDrop: boolean;
}): string;
/**
 * Reads the text of a 406. It has the same forms on 3.10.8, 4.0.5 and 4.3.6.
 * @param {string} text
 * @param {string} vhost
 * @param {string} queue
 * @returns {{ name: string, value: unknown } | undefined}
 */
export function parseDifference(text: string, vhost: string, queue: string): {
    name: string;
    value: unknown;
} | undefined;
/**
 * What is known of a queue.
 */
export type QueueFacts = {
    type: "classic" | "quorum" | "stream";
    args: {
        [name: string]: unknown;
    };
};
