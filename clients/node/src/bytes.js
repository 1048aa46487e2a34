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
  for (let at = n; at >= 0 && at > n - 4; at--) { // a character has four bytes at most
    if ((bytes[at] & 0xC0) !== 0x80) return bytes.subarray(0, at)
  }
  return bytes.subarray(0, n) // it is no UTF-8
}
