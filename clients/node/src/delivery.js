import { markOf } from './fingerprint.js'
import { FOR_HEADER, MessageHeaders, readHeaders } from './generation.js'
import { parseProperties, RAW } from './properties.js'
import { newToken } from './token.js'

/** @typedef {import('amqplib').ConsumeMessage} ConsumeMessage */

/** One message on its way from the channel to its settlement. */
export class Delivery {
  /**
   * @param {ConsumeMessage} message
   * @param {{
   *   ack: (m: any) => void,
   *   nack: (m: any, allUpTo: boolean, requeue: boolean) => void
   * }} channel that delivered it
   * @param {import('./settings.js').Settings} settings
   */
  constructor(message, channel, settings) {
    this.message = message
    this.channel = channel
    this.queue = settings.queue
    this.vhost = settings.vhost
    this.consumer = settings.name
    this.maxAge = settings.maxAge
    this.received = performance.now()
    this.heldUntil = this.received + settings.consumerTimeout / 2 // for so long it may be held
    const { id, headers, unclear } = identify(message)
    this.id = id
    if (unclear && !settings.key) {
      settings.logger.warn(
        'a message id is not UTF-8, or has U+FFFD, so the message counts as one without an id; ' +
        'call keepRaw with the connection before it consumes',
        { queue: this.queue }
      )
    }
    this.headers = new MessageHeaders(headers, this.queue, id, message.content)
    this.generation = headers.size === 0 ? NONE : this.headers.generation
    if (settings.key) this.id = keyOf(settings, message)
    if (this.headers.foreign) warnForeign(settings, this.id)
    this.copyNumber = this.hasID ? this.headers.copyNumber : 0 // the number of this copy; 0: it is none
    this.delay = this.copyNumber > 0 ? delayOf(this.copyNumber, settings, message) : ''

    this.again = false // a counted attempt in place came before the present one
    this.postponed = 0 // attempts in a row that were not counted
    /** @type {import('./reply.js').Reply | undefined} */
    this.reply = undefined
    /** @type {number | undefined} */
    this.fence = undefined // of all attempts; undefined: no handler was called yet
    this.unanswered = 0 // steps in a row that the store did not take
    this.probes = 0 // attempts that the breaker permitted
    /** @type {import('./counter.js').Progress | undefined} */
    this.progress = undefined // of its last step
    /** @type {import('./breaker.js').Breaker | undefined} */
    this.breaker = undefined // of its session
    this.skipped = false // its backoff was cut short, because an operator skipped the message

    // What it holds.
    this.worker = false
    this.slot = false
    this.lock = 0 // units of the isolation lock
    this.undecided = false // it is the one attempt of the process that may be open and isolated
    this.succeeded = false // the breaker has heard that its handler returned

    this.unrecorded = false // dead-lettered before the store has counted its failure
    /** @type {Error | undefined} */
    this.broken = undefined // why the dead letter is held: its route
    this.routeUntil = 0
    this.renewed = -Infinity // when its tombstone was
    /** @type {import('./settings.js').Outcome} */
    this.outcome = 'leave'
    /** @type {Error | undefined} */
    this.error = undefined

    // Of the present attempt; see begin.
    /** @type {{ token?: string }} most attempts succeed, and never need their token */
    this.name = {}
    /** @type {import('./decide.js').Mode} of START */
    this.mode = 'shared'
    this.open = false // START let it begin, or may have: its reply was lost
    this.doubt = false // a START was not answered, and may yet arrive: only END makes sure that it opens nothing
    this.number = 0 // 0 if its handler was not called
    /** @type {number | undefined} */
    this.began = undefined // when its handler was called
    this.ran = 0
    this.failed = false
    this.uncounted = false // the handler said that the attempt is not counted
    this.cause = ''
    this.reason = ''
    /** @type {unknown} */
    this.failure = undefined // the error that the handler threw, or why it was not called
    /** @type {number | undefined} */
    this.asked = undefined // ms that the handler asked to wait
    this.atMost = 0 // failed attempts that it allows; 0: it did not say
  }

  /**
   * Begins another attempt.
   * @param {import('./decide.js').Mode} mode of START
   */
  begin(mode) {
    this.name = {}
    this.mode = mode
    this.open = this.doubt = this.failed = this.uncounted = false
    this.number = this.ran = this.atMost = 0
    this.cause = this.reason = ''
    this.failure = this.asked = this.began = undefined
  }

  get token() {
    return this.name.token ??= newToken()
  }

  get hasID() {
    return this.id.length > 0
  }

  /** This is the first attempt at a delivery that is neither redelivered nor a copy. */
  get isFirst() {
    return !this.again && !this.message.fields.redelivered && this.copyNumber === 0
  }

  /** Whether it has the whole isolation lock. */
  get isolated() {
    return this.lock > 1
  }

  /** The fence that the message carries. */
  get carried() {
    return this.headers.fence
  }

  /**
   * The attempt as the store counts it.
   * @returns {import('./counter.js').CountedAttempt}
   */
  counted() {
    this.progress = this.breaker?.progress(this.began)
    const { vhost, queue, id, generation, token, consumer, received, maxAge, delay, progress } = this
    return {
      vhost, queue, id, generation, token, consumer, first: this.isFirst, received, fence: this.carried, maxAge, delay,
      progress
    }
  }
}

/**
 * How START and FAIL name a copy, for a consumer that moves no message.
 * @param {number} copyNumber
 * @param {import('./settings.js').Settings} settings
 * @param {ConsumeMessage} message
 */
function delayOf(copyNumber, { handlerTimeout, consumerTimeout }, message) {
  return `delay ${copyNumber} 0 ${Math.ceil(Math.min(handlerTimeout, consumerTimeout)) + LEASE} ${markOf(message)}`
}

/** ms after the handler timeout for which an open attempt at a copy counts as running. */
const LEASE = 30_000

const NONE = Buffer.alloc(0)
const NO_HEADERS = new Map()

/** @type {WeakMap<import('./settings.js').Settings, number>} when foreign headers were logged last */
const warned = new WeakMap()

const WARN_EVERY = 60_000

/**
 * Logs that a message carries headers of another one, once a minute: a program that copies headers sends many.
 * @param {import('./settings.js').Settings} settings
 * @param {Buffer} id
 */
function warnForeign(settings, id) {
  const now = performance.now()
  if (now - (warned.get(settings) ?? -Infinity) < WARN_EVERY) return
  warned.set(settings, now)
  settings.logger.warn(
    'a message carries headers of strikes that were written for another message or queue; they count as absent. ' +
      'A program that copies the headers of a message it received must leave out those that begin with x-strikes-; ' +
      `a tool that replays dead letters must set ${FOR_HEADER}`,
    { queue: settings.queue, id: id.toString() }
  )
}

/**
 * The id and the headers of a message, from the bytes of its properties if they were kept. Else an id that is not
 * UTF-8 is unclear, and counts as none: amqplib has replaced its bytes, and the message would be counted as another
 * one. A header that is not UTF-8 is refused.
 * @param {ConsumeMessage} message
 * @returns {{ id: Buffer, headers: Map<any, any>, unclear?: boolean }}
 */
export function identify(message) {
  const raw = /** @type {any} */ (message.properties)[RAW]
  if (raw !== undefined) {
    const { messageId, headers } = parseProperties(raw)
    return { id: messageId, headers: headers.length === 0 ? NO_HEADERS : readHeaders(headers) }
  }
  const id = message.properties.messageId ?? ''
  const unclear = id.includes('\uFFFD')
  return { id: unclear ? NONE : Buffer.from(id), headers: readHeaders(message.properties.headers), unclear }
}

/** @param {import('./settings.js').Settings} settings @param {ConsumeMessage} message */
function keyOf(settings, message) {
  try {
    /** @type {any} */
    const key = settings.key?.(message)
    return key === undefined || key === null ? NONE : Buffer.from(Number.isSafeInteger(key) ? String(key) : key)
  } catch (error) { // a message that makes it throw must not end every session that receives it
    settings.logger.error('key threw, or returned no text, Buffer or whole number', { queue: settings.queue, error })
    return NONE
  }
}
