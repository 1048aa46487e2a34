import { textOf } from './errors.js'

/** @type {unique symbol} */
const REJECTED = Symbol.for('strikes.rejected')
/** @type {unique symbol} */
const WAIT = Symbol.for('strikes.wait')
/** @type {unique symbol} */
const RETRIES = Symbol.for('strikes.retries')
/** @type {unique symbol} */
const UNCOUNTED = Symbol.for('strikes.uncounted')

/**
 * Wraps an error so that the message is dead-lettered now, whatever its count: throw reject(err).
 * @param {unknown} err
 * @returns {Error}
 */
export function reject(err) {
  return Object.defineProperty(wrap(err), REJECTED, { value: true })
}

/**
 * Wraps an error so that the next attempt waits for ms instead of the backoff: throw retryAfter(err, 5000). It is
 * counted like any other failed attempt. The delivery is held unacked meanwhile, so it is for seconds or minutes.
 * @param {unknown} err
 * @param {number} ms a negative one is none
 * @returns {Error}
 */
export function retryAfter(err, ms) {
  if (!Number.isFinite(ms)) throw new TypeError(`retryAfter: ms must be a number, got ${ms}`)
  return Object.defineProperty(wrap(err), WAIT, { value: Math.max(ms, 0) })
}

/**
 * Wraps an error so that the message is retried at most n times after a failure of this kind:
 * throw retryAtMost(err, 1). It is dead-lettered if it has more than n failed attempts of any kind, this one included.
 * It lowers the limit for this failure alone, and never raises it. A limit that an operator gave the message replaces
 * it. If several are wrapped in each other, the smallest counts.
 * @param {unknown} err
 * @param {number} n a negative one is treated as 0, which allows no retry
 * @returns {Error}
 */
export function retryAtMost(err, n) {
  if (!Number.isFinite(n)) throw new TypeError(`retryAtMost: n must be a number, got ${n}`)
  return Object.defineProperty(wrap(err), RETRIES, { value: Math.min(Math.max(Math.floor(n), 0), 1000) })
}

/**
 * Wraps an error so that the attempt is not counted: the handler could not work, for a reason other than the message.
 * The delivery waits unacked, and the handler is called again in this process, whatever `retry` says. It waits for the
 * backoff, which grows with the attempts in a row that were not counted, or for the time of retryAfter. It waits at
 * least 100 ms. A delivery that waited for half the consumerTimeout returns to the queue. A message without an id gets
 * another attempt too.
 * @param {unknown} err
 * @returns {Error}
 */
export function notCounted(err) {
  return Object.defineProperty(wrap(err), UNCOUNTED, { value: true })
}

/** @param {unknown} err */
function wrap(err) {
  const text = err instanceof Error && typeof err.message === 'string' ? err.message : textOf(err)
  const out = new Error(text, { cause: err })
  if (err instanceof Error) out.name = err.name
  return out
}

/**
 * Returns the requests of a thrown value, also if it was wrapped again with a cause, or in an AggregateError.
 * @param {unknown} thrown
 * @returns {{ rejected: boolean, uncounted: boolean, wait: number | undefined, retries: number | undefined }}
 */
export function steering(thrown) {
  let rejected = false
  let uncounted = false
  /** @type {number | undefined} */
  let wait
  /** @type {number | undefined} */
  let retries
  /** @type {any[]} */
  const tree = [thrown]
  for (let n = 0; n < 32 && n < tree.length; n++) {
    const err = tree[n]
    if (typeof err !== 'object' || err === null) continue
    try {
      rejected ||= err[REJECTED] === true
      uncounted ||= err[UNCOUNTED] === true
      wait ??= err[WAIT]
      if (err[RETRIES] !== undefined) retries = Math.min(retries ?? Infinity, err[RETRIES])
      if (err instanceof AggregateError) tree.push(...err.errors.slice(0, 32))
      tree.push(err.cause)
    } catch { /* a getter of the user's */ }
  }
  return { rejected, uncounted, wait, retries }
}
