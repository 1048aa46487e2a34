import { createHash } from 'node:crypto'
import { encodeTable, readArray, readTable } from './properties.js'

/** Begins a new generation of a message if its value changes. */
export const GENERATION_HEADER = 'x-strikes-generation'

/** The fence of a replayed message's first delivery. */
export const FENCE_HEADER = 'x-strikes-fence'

/** The number of a copy that waited in a delay queue, a whole number from 1. Consumers in Go set it. */
export const COPY_HEADER = 'x-strikes-copy'

/** The generation of such a copy, if its other headers do not tell it. */
export const COPY_GENERATION_HEADER = 'x-strikes-copy-generation'

/** Names the message that the headers of strikes were written for. */
export const FOR_HEADER = 'x-strikes-for'

// Headers of strikes that this client does not read: a place in a lane, and where a replay comes from.
const UNREAD = ['x-strikes-position', 'x-strikes-replay']
const READ = [GENERATION_HEADER, FENCE_HEADER, COPY_HEADER, COPY_GENERATION_HEADER]
const OURS = [...READ, ...UNREAD]

const MAX_COPY_NUMBER = 2 ** 31 - 1

/** The largest fence that a message may carry. */
export const MAX_FENCE = 2 ** 52

/** @typedef {import('./properties.js').Field} Field */

/**
 * A death that a consumer caused, from x-death.
 * @typedef {{ count: number, time: bigint }} Death time in seconds since 1970
 */

/**
 * Reads the headers that decide how a message is counted, from the bytes of a header table, or from headers as amqplib
 * decodes them.
 * @param {Buffer | Record<string, unknown> | undefined} headers
 * @returns {Map<string, Field>}
 */
export function readHeaders(headers) {
  if (Buffer.isBuffer(headers)) return readTable(headers)
  /** @type {Record<string, unknown>} */
  const own = {}
  if (!headers) return new Map()
  for (const name of ['x-death', ...READ]) if (Object.hasOwn(headers, name)) own[name] = headers[name]
  for (const name of UNREAD) if (Object.hasOwn(headers, name)) own[name] = true
  const written = Object.hasOwn(headers, FOR_HEADER) ? headers[FOR_HEADER] : undefined
  if (typeof written === 'string' && /^[0-9a-f]+$/.test(written)) own[FOR_HEADER] = written
  return readTable(encodeTable(own))
}

/**
 * The headers of one message that was received from a queue. Programs copy the headers of a message that they
 * received to the next one that they publish. Those of strikes count only if they were written for this message.
 */
export class MessageHeaders {
  /**
   * @param {Map<string, Field>} fields of readHeaders
   * @param {string} queue
   * @param {Buffer} id the message id as it was transported, not the result of key
   * @param {Buffer} body
   */
  constructor(fields, queue, id, body) {
    this.fields = fields
    this.queue = queue
    this.own = false // those of strikes count
    this.here = false // they were written for this very queue
    const present = fields.size > 0 && OURS.some((name) => fields.has(name))
    if (present) this.compare(id, body)
    this.foreign = present && !this.own // there are headers of strikes, and they count as absent
  }

  /** @param {Buffer} id @param {Buffer} body */
  compare(id, body) {
    const written = textIn(this.fields.get(FOR_HEADER))
    if (written.length === 0) return
    const begun = textIn(this.fields.get(GENERATION_HEADER))
    this.here = written.equals(nameFor(Buffer.from(this.queue), id, begun, body))
    this.own = this.here || written.equals(nameFor(NONE, id, begun, body))
  }

  /** The number of a copy; 0: the message is none. */
  get copyNumber() {
    const copyNumber = this.here ? integer(this.fields.get(COPY_HEADER)) : 0
    return copyNumber > 0 && copyNumber <= MAX_COPY_NUMBER ? copyNumber : 0
  }

  /** The name of the message's generation, by its newest death in the queue and its generation header. */
  get generation() {
    const death = newestDeath(this.fields, this.queue)
    const first = this.firstGeneration()
    if (!death) return first
    const name = Buffer.from(`${death.count}@${death.time}`)
    return first.length > 0 ? Buffer.concat([name, Buffer.from(' '), first]) : name
  }

  /** The generation that a publish or a replay began. A copy is of the generation that it carries. */
  firstGeneration() {
    const carried = textIn(this.fields.get(COPY_GENERATION_HEADER))
    if (this.copyNumber > 0 && carried.length > 0) return carried
    const header = textIn(this.fields.get(GENERATION_HEADER))
    return this.own && header.length > 0 ? Buffer.concat([Buffer.from('header:'), header]) : NONE
  }

  /**
   * The fence that the message carries: that of its last replay, or the end of the second in which it died since, in
   * µs since 1970. 0: none.
   */
  get fence() {
    let fence = this.own ? integer(this.fields.get(FENCE_HEADER)) : 0
    if (fence < 0 || fence > MAX_FENCE) fence = 0 // any publisher can send it
    const death = newestDeath(this.fields, this.queue)
    const end = death ? Number((death.time + 1n) * 1000000n) : 0
    return end <= MAX_FENCE ? Math.max(fence, end) : fence
  }
}

/**
 * The name of a message in x-strikes-for. The body counts only without an id.
 * @param {Buffer} queue
 * @param {Buffer} id
 * @param {Buffer} begun its generation header
 * @param {Buffer} body
 */
export function nameFor(queue, id, begun, body) {
  const sum = createHash('sha256')
  for (const part of [queue, begun, id]) sum.update(`${part.length}:`).update(part)
  if (id.length === 0) sum.update(body)
  return Buffer.from(sum.digest('hex').slice(0, 32))
}

/** @param {Field | undefined} field @returns {Buffer} */
function textIn(field) {
  return field?.type === 'S' ? field.bytes : NONE
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
 * A whole number of any type, because libraries of other languages do not distinguish the types. 0 if the field is no
 * whole number, or is beyond 2^53-1.
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
