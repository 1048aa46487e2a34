// amqplib decodes message ids and headers as UTF-8 and all numbers alike. An id that is not UTF-8 would lose bytes,
// and its count would be another one than in Go. So the bytes of a message's properties are kept, and read here.

/** Where keepRaw leaves the bytes of a message's properties. */
export const RAW = Symbol.for('strikes.properties')

const BASIC = 60
const FRAME_HEADER = 2

/**
 * Makes an amqplib connection keep the bytes of the properties of each message that it receives. It returns false if
 * this version of amqplib cannot do that. A message whose id is not UTF-8 then counts as one without an id.
 * @param {any} model the result of amqplib's connect
 * @returns {boolean}
 */
export function keepRaw(model) {
  const connection = model?.connection
  if (typeof connection?.recvFrame !== 'function' || !Buffer.isBuffer(connection.rest)) return false
  const receive = connection.recvFrame
  connection.recvFrame = function () {
    const bytes = this.rest
    const frame = receive.call(this) // calls this function again after it has read more
    if (frame && frame.id === BASIC && frame.fields[RAW] === undefined && bytes[0] === FRAME_HEADER) {
      frame.fields[RAW] = bytes.subarray(7 + 12, 7 + bytes.readUInt32BE(3))
    }
    return frame
  }
  return true
}

// The properties before the message id, in the order of their flags.
const SHORT = 0x8000 | 0x4000 | 0x0400 | 0x0200 | 0x0100
const HEADERS = 0x2000
const OCTET = 0x1000 | 0x0800
const MESSAGE_ID = 0x0080

/**
 * Reads the message id and the bytes of the header table from the bytes of a message's properties.
 * @param {Buffer} bytes
 * @returns {{ messageId: Buffer, headers: Buffer }} each empty if absent
 */
export function parseProperties(bytes) {
  const flags = bytes.readUInt16BE(0)
  let at = 2
  let headers = bytes.subarray(0, 0)
  for (let flag = 0x8000; flag > MESSAGE_ID; flag >>= 1) {
    if (!(flags & flag)) continue
    if (flag & SHORT) {
      at += 1 + bytes.readUInt8(at)
    } else if (flag & OCTET) {
      at += 1
    } else if (flag & HEADERS) {
      const size = bytes.readUInt32BE(at)
      headers = bytes.subarray(at + 4, at + 4 + size)
      at += 4 + size
    }
  }
  if (!(flags & MESSAGE_ID)) return { messageId: bytes.subarray(0, 0), headers }
  return { messageId: bytes.subarray(at + 1, at + 1 + bytes.readUInt8(at)), headers }
}

/**
 * A value of a header table: its AMQP type and its bytes, without the length that precedes them.
 * @typedef {{ type: string, bytes: Buffer }} Field
 */

/** @type {Record<string, number>} bytes of the types of a fixed length */
const FIXED = { t: 1, b: 1, B: 1, s: 2, u: 2, I: 4, i: 4, f: 4, D: 5, l: 8, d: 8, T: 8, V: 0 }

/**
 * @param {Buffer} bytes
 * @param {number} at
 * @returns {{ field: Field, next: number }}
 */
function readField(bytes, at) {
  const type = String.fromCharCode(bytes.readUInt8(at))
  const fixed = FIXED[type]
  const begin = fixed === undefined ? at + 5 : at + 1
  const end = begin + (fixed ?? bytes.readUInt32BE(at + 1))
  if ((fixed === undefined && !'SxAF'.includes(type)) || end > bytes.length)
    throw new RangeError('the headers are malformed')
  return { field: { type, bytes: bytes.subarray(begin, end) }, next: end }
}

/**
 * Reads a table. Nested ones stay bytes, so that no depth exhausts the stack.
 * @param {Buffer} bytes
 * @returns {Map<string, Field>} by name; each character of a name stands for a byte
 */
export function readTable(bytes) {
  const out = new Map()
  for (let at = 0; at < bytes.length;) {
    const size = bytes.readUInt8(at)
    const { field, next } = readField(bytes, at + 1 + size)
    out.set(bytes.toString('latin1', at + 1, at + 1 + size), field)
    at = next
  }
  return out
}

/**
 * Reads an array.
 * @param {Buffer} bytes
 * @returns {Field[]}
 */
export function readArray(bytes) {
  const out = []
  for (let at = 0; at < bytes.length;) {
    const { field, next } = readField(bytes, at)
    out.push(field)
    at = next
  }
  return out
}

/**
 * Encodes a value that amqplib decoded, for callers that have only that. Integers become int64.
 * @param {unknown} value
 * @returns {Field}
 */
export function fieldOf(value) {
  if (typeof value === 'string') {
    if (value.includes('\uFFFD'))
      throw new RangeError('a header is not UTF-8, or has U+FFFD: amqplib cannot distinguish the two')
    return { type: 'S', bytes: Buffer.from(value) }
  }
  if (Buffer.isBuffer(value)) return { type: 'x', bytes: value }
  if (Array.isArray(value)) return { type: 'A', bytes: Buffer.concat(value.map((v) => spell(fieldOf(v)))) }
  if (typeof value === 'bigint' || Number.isSafeInteger(value))
    return { type: 'l', bytes: eight(BigInt(/** @type {number} */ (value))) }
  if (typeof value === 'number') return { type: 'd', bytes: double(value) }
  // No header that is read has another type.
  if (typeof value !== 'object' || value === null) return { type: 'V', bytes: Buffer.alloc(0) }
  const typed = /** @type {Record<string, any>} */ (value)
  if (typed['!'] === 'timestamp') return { type: 'T', bytes: eight(BigInt(typed.value)) }
  return { type: 'F', bytes: encodeTable(typed) }
}

/**
 * @param {Record<string, unknown>} table
 * @returns {Buffer}
 */
export function encodeTable(table) {
  return Buffer.concat(Object.keys(table).map((name) => {
    const key = Buffer.from(name).subarray(0, 255)
    return Buffer.concat([Buffer.from([key.length]), key, spell(fieldOf(table[name]))])
  }))
}

/** @param {Field} field */
function spell({ type, bytes }) {
  if (FIXED[type] !== undefined) return Buffer.concat([Buffer.from(type), bytes])
  const size = Buffer.alloc(4)
  size.writeUInt32BE(bytes.length)
  return Buffer.concat([Buffer.from(type), size, bytes])
}

/** @param {number} value */
function double(value) {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleBE(value)
  return bytes
}

/** @param {bigint} value */
function eight(value) {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt.asUintN(64, value))
  return bytes
}
