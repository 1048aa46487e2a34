import {
  ACK, AGAIN, DEAD_LETTER, decideEnded, decideFailed, decideRetry, END, FAIL, LEAVE, UNCOUNT, UNCOUNTED, WAIT
} from './decide.js'
import { StoreError, StuckError } from './errors.js'
import { counted } from './reply.js'
import { backoffOf, close, closing, failureOf, hold, holdFor, sendEnd, unlock } from './start.js'

/** @typedef {import('./delivery.js').Delivery} Delivery */
/** @typedef {import('./deliveries.js').Deliveries} Deliveries */
/** @typedef {import('./decide.js').Step} Step */

// The least wait in ms after an attempt that is not counted: no limit ends a loop of them.
const LEAST_POSTPONED = 100

/**
 * Reports to the store how the handler ended, if it must know, and returns the next step of the delivery.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
export async function conclude(s, d) {
  checkStuck(s)
  const next = decideEnded({
    ok: !d.failed, rejected: d.cause === 'rejected', uncounted: d.uncounted, stopped: s.stop.done, hasID: d.hasID,
    open: d.open
  })
  if (next === ACK) {
    unlock(s, d)
    return next
  }
  if (!d.isolated) s.release(d) // an isolated attempt is closed under the lock
  switch (next) {
    case END: return end(s, d)
    case FAIL: return countFailed(s, d)
    case UNCOUNT: return uncount(s, d)
    case LEAVE:
      await close(s, d)
      s.release(d)
      return next
    default:
      d.cause = 'no-id'
      return DEAD_LETTER
  }
}

/** @param {Deliveries} s */
function checkStuck(s) {
  const { abandoned } = s.isolation
  if (abandoned >= s.mostStuck) {
    s.fail(
      new StuckError(
        `queue ${JSON.stringify(s.settings.queue)}: ` +
        `${abandoned} handlers were abandoned at their deadlines and still run; restart the process`
      )
    )
  }
}

/**
 * Closes an attempt that succeeded, before its ack, even if the session has ended:
 * the delivery will come back, and an open attempt must not be taken for a crash.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
async function end(s, d) {
  for (;;) {
    const err = await sendEnd(s, d, true).then(() => undefined, (reason) => reason)
    if (err === undefined) s.succeeded(d) // before the next attempt begins
    s.release(d)
    if (err === undefined) return ACK
    const next = await hold(s, d, END, err)
    if (next !== END) return next
  }
}

/**
 * Counts a failed attempt and waits out its backoff.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
async function countFailed(s, d) {
  const failure = failureOf(s, d)
  for (;;) {
    let next
    try {
      next = await sendFail(s, d, failure)
      s.release(d)
    } catch (err) {
      s.release(d)
      next = await hold(s, d, FAIL, err)
      if (next === FAIL) continue
      d.unrecorded = next === DEAD_LETTER
      return next
    }
    if (next === UNCOUNTED) return postpone(s, d)
    if (next !== WAIT) return next
    d.postponed = 0
    s.control?.counted(d)
    const wait = d.reply?.wait ?? 0
    s.observe(d, 'retry', { wait })
    next = await holdFor(s, d, wait, decideRetry(s.settings.retry))
    d.again = next === AGAIN
    return next
  }
}

/**
 * Ends an attempt that is not counted. A breaker hears of it with FAIL.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
async function uncount(s, d) {
  if (s.breaker && d.hasID) {
    d.cause = 'not-counted'
    return countFailed(s, d)
  }
  while (d.open || d.doubt) {
    try {
      await sendEnd(s, d, false)
    } catch (err) {
      s.release(d)
      const next = await hold(s, d, UNCOUNT, err)
      if (next !== UNCOUNT) return next
    }
  }
  s.release(d)
  return postpone(s, d)
}

/**
 * Holds a delivery before another attempt here: a requeue would count towards a delivery limit.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
async function postpone(s, d) {
  s.control?.postpone(d, d.reason)
  if (s.breaker?.shut) { // it waits there
    d.postponed = Math.max(d.postponed, 1)
    s.observe(d, 'not-counted')
    return AGAIN
  }
  d.postponed++
  const wait = Math.max(backoffOf(s, d, (d.reply ? counted(d.reply) : 0) + d.postponed), LEAST_POSTPONED)
  s.observe(d, 'not-counted', { wait })
  return holdFor(s, d, wait, AGAIN)
}

/**
 * @param {Deliveries} s
 * @param {Delivery} d
 * @param {import('./counter.js').Failure} failure
 * @returns {Promise<Step>}
 */
async function sendFail(s, d, failure) {
  const { reply, next } = await closing(s, d, async (options) => {
    const reply = await s.settings.counter.fail(d.counted(), failure, options)
    const next = decideFailed(reply.code)
    if (!next) throw new StoreError('unexpected reply', `FAIL got ${reply.code}`)
    return { reply, next }
  })
  d.reply = reply
  s.breaker?.failed(d)
  // An age or an operator ended the retries, not the attempt's own cause.
  if (reply.cause === 'too-old' || reply.cause === 'skipped') d.cause = reply.cause
  if (reply.possibleDuplicate) {
    s.settings.logger.warn('two messages with this id may be in the queue: they share one limit of attempts', {
      queue: d.queue,
      id: d.id.toString()
    })
  }
  return next
}
