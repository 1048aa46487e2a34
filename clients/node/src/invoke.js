import { types } from 'node:util'
import { textOf } from './errors.js'
import { hashGeneration } from './key.js'
import { counted } from './reply.js'
import { need } from './settings.js'
import { steering } from './steer.js'
import { newToken } from './token.js'

/** @typedef {import('./delivery.js').Delivery} Delivery */
/** @typedef {import('./deliveries.js').Deliveries} Deliveries */

/**
 * Handles one message. A return, or a promise that resolves, means done: the message is acked. A throw is counted as a
 * failed attempt; reject, retryAfter, retryAtMost and notCounted steer that. So is a returned generator or Observable,
 * because its work is never done. The handler does not settle the message.
 * @callback Handler
 * @param {import('amqplib').ConsumeMessage} message
 * @param {Attempt} attempt
 * @returns {unknown}
 */

// How long a handler has to return once its signal is aborted. What it does later is ignored.
const ABANDON_AFTER = 2000

const deadline = new Error('the handler passed its deadline')

/** Which attempt at the message a handler makes. */
export class Attempt {
  /** @param {Delivery} d @param {number} last @param {number} fence */
  constructor(d, last, fence) {
    /** One more than the failed attempts that were counted so far. */
    this.number = d.number
    /** The number after whose failure the message is dead-lettered, as far as it is known. */
    this.last = last
    /**
     * Orders the deliveries of a message: a system behind the handler can refuse lower ones than the highest that it
     * saw. 0 for the first delivery of a new message.
     */
    this.fence = fence
    /** What identifies the message: the result of `key`, or its message id. */
    this.id = d.id
    this.#name = d.name
    this.#generation = d.generation
  }

  /** @type {Buffer} */
  #generation

  /** @type {{ token?: string }} */
  #name
  /** @type {AbortController | undefined} */
  #controller
  /** @type {unknown} */
  #reason = undefined

  /**
   * Distinguishes one use of the id from the next: a retry keeps it, and a replay changes it. At most 16 characters.
   */
  get generation() {
    return hashGeneration(this.#generation)
  }

  /** Unique to this attempt in all processes. */
  get token() {
    return this.#name.token ??= newToken()
  }

  /** Is aborted at the handlerTimeout, when the session is lost, and when the time to drain is over. */
  get signal() {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  /** @internal */
  get reason() {
    return this.#reason
  }

  /** @internal @param {unknown} reason */
  abort(reason) {
    if (this.#reason !== undefined) return
    this.#reason = reason ?? new Error('the session has ended')
    this.#controller?.abort(this.#reason)
  }
}

/**
 * Calls the handler and notes how it ended.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<void>}
 */
export async function invoke(s, d) {
  d.number = (d.reply ? counted(d.reply) : 0) + 1
  // The fence of the delivery is that of all attempts at it.
  d.fence ??= d.open && d.reply ? d.reply.fence : d.carried
  const attempt = new Attempt(d, d.reply?.limit || s.limit, d.fence)
  const began = d.began = performance.now()
  const ended = await call(s, d, attempt)
  d.ran = performance.now() - began
  if (ended.ok) return
  d.failed = true
  d.failure = ended.thrown
  const { rejected, uncounted, wait, retries } = steering(ended.thrown)
  d.cause = rejected ? 'rejected' : attempt.reason === deadline ? 'timed-out' : 'failed'
  d.asked = wait
  d.uncounted = uncounted
  d.atMost = retries === undefined ? 0 : retries + 1
  d.reason = textOf(ended.thrown)
}

/** @typedef {{ ok: boolean, thrown?: unknown }} Ended */

/**
 * Calls the handler. It resolves when the handler has ended, or was abandoned because it did not return when it was
 * cancelled. An abandoned handler counts as running until it returns.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @param {Attempt} attempt
 * @returns {Promise<Ended>}
 */
function call(s, d, attempt) {
  return new Promise((resolve) => {
    let abandoned = false
    /** @type {NodeJS.Timeout | undefined} */
    let timer
    const finish = (/** @type {Ended} */ ended) => {
      if (abandoned) {
        s.isolation.abandoned--
        return
      }
      clearTimeout(timer)
      off()
      resolve(ended)
    }
    const cancel = (/** @type {unknown} */ why) => {
      if (attempt.reason !== undefined) return // its time to return runs
      attempt.abort(why)
      clearTimeout(timer)
      timer = setTimeout(() => {
        off()
        abandoned = true
        s.isolation.abandoned++
        resolve({
          ok: false,
          thrown: new Error(
            `${textOf(attempt.reason)}: it did not return after its signal was aborted, and was abandoned`
          )
        })
      }, ABANDON_AFTER)
    }
    const { handlerTimeout } = s.settings
    if (handlerTimeout <= 2 ** 31 - 1) timer = setTimeout(() => cancel(deadline), handlerTimeout)
    const off = s.live.on(() => cancel(s.live.reason))
    const threw = (/** @type {unknown} */ thrown) => finish({ ok: false, thrown })
    const returned = (/** @type {unknown} */ result) => {
      try {
        refuseUnfinished(result)
      } catch (thrown) {
        threw(thrown)
        return
      }
      finish({ ok: true })
    }
    try {
      const result = /** @type {any} */ (s.handler(d.message, attempt))
      // A thenable may pass on another promise, whose work is not done either.
      if (typeof result?.then === 'function') Promise.resolve(result).then(returned, threw)
      else returned(result)
    } catch (thrown) {
      threw(thrown)
    }
  })
}

/**
 * Refuses a handler whose calls would do nothing.
 * @param {unknown} handler
 */
export function needHandler(handler) {
  const ok = typeof handler === 'function' && !types.isGeneratorFunction(handler)
  need('handler', handler, ok, 'a function that handles a message, not a generator function')
}

/**
 * Throws if a handler returned a generator or an Observable, because its work would never be done.
 * @param {any} result
 */
function refuseUnfinished(result) {
  const observable = typeof result?.subscribe === 'function' && typeof result.pipe === 'function'
  if (!observable && !types.isGeneratorObject(result)) return
  throw new TypeError(
    `the handler returned ${observable ? 'an Observable' : 'a generator'}, and its work is not done: ` +
    'return nothing or a promise, such as lastValueFrom(observable) of RxJS'
  )
}
