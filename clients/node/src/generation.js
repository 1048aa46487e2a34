import { encodeTable, readArray, readTable } from './properties.js'

/** Begins a new generation of a message if its value changes. */
export const GENERATION_HEADER = 'x-strikes-generation'

/** The fence of a replayed message's first delivery. */
export const FENCE_HEADER = 'x-strikes-fence'

/** The number of a copy that waited in the later lane, a whole number from 1. Consumers in Go set it. */
export const HOP_HEADER = 'x-strikes-hop'

/** The generation of such a copy, if its other headers do not tell it. */
export const HOP_GENERATION_HEADER = 'x-strikes-hop-generation'

const MAX_HOP = 2 ** 31 - 1

/** The largest fence that a message may carry. */
export const MAX_FLOOR = 2 ** 52

/** @typedef {import('./properties.js').Field} Field */

/**
 * A death that a consumer caused, from x-death.
 * @typedef {{ count: number, time: bigint }} Death time in seconds since 1970
 */

/**
 * The headers that decide how a message is counted. It accepts the bytes of a header table, or headers as amqplib decodes them.
 * @param {Buffer | Record<string, unknown> | undefined} headers
 * @returns {Map<string, Field>}
 */
export function readHeaders(headers) {
  if (Buffer.isBuffer(headers)) return readTable(headers)
  /** @type {Record<string, unknown>} */
  const own = {}
  for (const name of ['x-death', GENERATION_HEADER, FENCE_HEADER, HOP_HEADER, HOP_GENERATION_HEADER]) {
    if (headers && Object.hasOwn(headers, name)) own[name] = headers[name]
  }
  return readTable(encodeTable(own))
}

/**
 * The number of a copy; 0: the message is none.
 * @param {Map<string, Field>} headers of readHeaders
 * @returns {number}
 */
export function hopOf(headers) {
  const hop = integer(headers.get(HOP_HEADER))
  return hop > 0 && hop <= MAX_HOP ? hop : 0
}

/**
 * Names the generation of a message, by its newest death in the queue and its generation header, each if there is one.
 * @param {Map<string, Field>} headers of readHeaders
 * @param {string} queue
 * @returns {Buffer} empty if there is neither
 */
export function generationOf(headers, queue) {
  const death = newestDeath(headers, queue)
  const first = firstGeneration(headers)
  if (!death) return first
  const name = Buffer.from(`${death.count}@${death.time}`)
  return first.length > 0 ? Buffer.concat([name, Buffer.from(' '), first]) : name
}

/**
 * The generation that a publish or a replay began. A copy is of the generation that it carries.
 * @param {Map<string, Field>} headers
 * @returns {Buffer}
 */
function firstGeneration(headers) {
  const carried = headers.get(HOP_GENERATION_HEADER)
  if (hopOf(headers) > 0 && carried?.type === 'S' && carried.bytes.length > 0) return carried.bytes
  const header = headers.get(GENERATION_HEADER)
  return header?.type === 'S' && header.bytes.length > 0 ? Buffer.concat([Buffer.from('header:'), header.bytes]) : NONE
}

/**
 * The same of headers in the form that amqplib delivers.
 * @param {Record<string, unknown> | undefined} headers
 * @param {string} queue
 * @returns {string}
 */
export function generation(headers, queue) {
  return generationOf(readHeaders(headers), queue).toString()
}

/**
 * The fence that a message carries: that of its last replay, or the end of the second in which it died since, in µs since
 * 1970. 0 if it has neither in a valid form.
 * @param {Map<string, Field>} headers
 * @param {string} queue
 * @returns {number}
 */
export function carriedFence(headers, queue) {
  let fence = integer(headers.get(FENCE_HEADER))
  if (fence < 0 || fence > MAX_FLOOR) fence = 0 // any publisher can send it
  const death = newestDeath(headers, queue)
  const end = death ? Number((death.time + 1n) * 1000000n) : 0
  return end <= MAX_FLOOR ? Math.max(fence, end) : fence
}

const NONE = Buffer.alloc(0)

/**
 * @param {Map<string, Field>} headers
 * @param {string} queue
 * @returns {Death | undefined}
 */
function newestDeath(headers, queue) {
  const list = headers.get('x-death')
  if (list?.type !== 'A') return undefined
  const name = Buffer.from(queue)
  for (const entry of readArray(list.bytes)) {
    if (entry.type !== 'F') continue
    const death = readTable(entry.bytes)
    const reason = death.get('reason')
    if (!isText(death.get('queue'), name) || !CONSUMERS.some((r) => isText(reason, r))) continue
    const time = death.get('time')
    if (time?.type !== 'T') return undefined // it is not the broker's, and would never change
    return { count: integer(death.get('count')), time: time.bytes.readBigInt64BE(0) }
  }
  return undefined
}

const CONSUMERS = [Buffer.from('rejected'), Buffer.from('delivery_limit')]

/** @param {Field | undefined} field @param {Buffer} text */
function isText(field, text) {
  return field?.type === 'S' && text.length > 0 && field.bytes.equals(text)
}

/**
 * A whole number, whatever its type: libraries of other languages do not distinguish the types. 0 if it is none, or beyond 2^53-1.
 * @param {Field | undefined} field
 * @returns {number}
 */
function integer(field) {
  const n = Number(numberOf(field))
  return Number.isSafeInteger(n) ? n + 0 : 0 // no -0
}

/** @param {Field | undefined} field @returns {number | bigint} */
function numberOf(field) {
  const bytes = field?.bytes ?? NONE
  switch (field?.type) {
    case 'l': return bytes.readBigInt64BE(0)
    case 'I': return bytes.readInt32BE(0)
    case 'i': return bytes.readUInt32BE(0)
    case 's': return bytes.readInt16BE(0)
    case 'u': return bytes.readUInt16BE(0)
    case 'b': return bytes.readInt8(0)
    case 'B': return bytes.readUInt8(0)
    case 'd': return bytes.readDoubleBE(0)
    case 'f': return bytes.readFloatBE(0)
    default: return 0
  }
}
