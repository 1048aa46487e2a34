/**
 * Makes an amqplib connection keep the bytes of the properties of each message that it receives. It reports false if this
 * version of amqplib cannot do that; ids that are not UTF-8 are then refused.
 * @param {any} model the result of amqplib's connect
 * @returns {boolean}
 */
export function keepRaw(model: any): boolean;
/**
 * Reads the message id and the bytes of the header table from the bytes of a message's properties.
 * @param {Buffer} bytes
 * @returns {{ messageId: Buffer, headers: Buffer }} each empty if absent
 */
export function parseProperties(bytes: Buffer): {
    messageId: Buffer;
    headers: Buffer;
};
/**
 * Reads a table. Nested ones stay bytes, so that no depth exhausts the stack.
 * @param {Buffer} bytes
 * @returns {Map<string, Field>} by name; each character of a name stands for a byte
 */
export function readTable(bytes: Buffer): Map<string, Field>;
/**
 * Reads an array.
 * @param {Buffer} bytes
 * @returns {Field[]}
 */
export function readArray(bytes: Buffer): Field[];
/**
 * Encodes what amqplib decoded, for callers that have only that. Integers become int64.
 * @param {unknown} value
 * @returns {Field}
 */
export function fieldOf(value: unknown): Field;
/**
 * @param {Record<string, unknown>} table
 * @returns {Buffer}
 */
export function encodeTable(table: Record<string, unknown>): Buffer;
/** Where keepRaw leaves the bytes of a message's properties. */
export const RAW: unique symbol;
/**
 * A value of a header table: its AMQP type and its bytes, without the length that precedes them.
 */
export type Field = {
    type: string;
    bytes: Buffer;
};
