/** Bytes that a record keeps of an id, a generation and a consumer. */
export const MAX_STORED = 512

/** Bytes that a record keeps of a reason. */
export const MAX_REASON = 1024

/**
 * Shortens a text to at most n bytes without splitting a character.
 * @param {string | Buffer} text
 * @param {number} n
 * @returns {Buffer}
 */
export function cut(text, n) {
  const bytes = Buffer.from(text)
  if (bytes.length <= n) return bytes
  while (n > 0 && (bytes[n] & 0xC0) === 0x80) n--
  return bytes.subarray(0, n)
}
