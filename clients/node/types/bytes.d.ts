/**
 * Shortens a text to at most n bytes without splitting a character.
 * @param {string | Buffer} text
 * @param {number} n
 * @returns {Buffer}
 */
export function cut(text: string | Buffer, n: number): Buffer;
/** Bytes that a record keeps of an id, a generation and a holder. */
export const MAX_STORED: 512;
/** Bytes that a record keeps of a reason. */
export const MAX_REASON: 1024;
