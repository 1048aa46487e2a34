/**
 * Distinguishes messages with the same id, by their bodies and the seconds of their timestamps, for a copy from the later lane.
 * @param {import('amqplib').ConsumeMessage} message
 * @returns {string}
 */
export function markOf({ properties, content }: import("amqplib").ConsumeMessage): string;
/**
 * Names a message by its content, as strikes dead list does for one that has no id. Messages that are equal in their id, correlation
 * id, type and body have the same one. Properties that are not UTF-8 give another one than the command shows.
 * @param {import('amqplib').ConsumeMessage} message
 * @returns {string}
 */
export function fingerprintOf({ properties, content }: import("amqplib").ConsumeMessage): string;
