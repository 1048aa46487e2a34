import { defaultBackoff, storeBackoff } from './backoff.js'
import { waitUnlessSkipped } from './control.js'
import {
  AGAIN, DEAD_LETTER, decideMode, decideOutage, decideOverdue, decideStarted, decideStopped, decideUnstarted,
  decideWait, GIVE_UP, ISOLATE, LEAVE, OVERDUE, RETRACT, RUN, START, WAIT
} from './decide.js'
import { WaitedTooLongError, StoreError, textOf } from './errors.js'
import { EVERYTHING } from './isolation.js'
import { counted } from './reply.js'
import { notTaken, send } from './send.js'
import { pause } from './wait.js'

/** @typedef {import('./delivery.js').Delivery} Delivery */
/** @typedef {import('./deliveries.js').Deliveries} Deliveries */
/** @typedef {import('./decide.js').Step} Step */

/** @type {Record<string, import('./decide.js').Mode>} */
const MODES = { suspects: 'shared', off: 'untracked' }

/**
 * Leads a delivery to its next attempt. It returns RUN once the handler is to be called; d then has a worker and its
 * units of the isolation lock. Any other step follows without an attempt.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
export async function begin(s, d) {
  d.begin(MODES[s.settings.isolation])
  if (s.breaker) {
    // The breaker may open while a first delivery waits for its worker. A later attempt waits for its permit first.
    if (d.fence === undefined && s.received(d) === RUN && !await s.takeWorker(d)) return giveBack(s, d)
    const instead = await s.breaker.begin(s, d)
    if (instead) return instead
  }
  if (s.stop.done) return LEAVE
  switch (s.received(d)) {
    case RUN: return enter(s, d)
    case ISOLATE: return startIsolated(s, d)
    case START: return start(s, d)
    default:
      d.cause = 'no-id'
      d.failure = new Error('the message has no id, so it gets one attempt only')
      return DEAD_LETTER
  }
}

/**
 * Asks the store whether the attempt may begin.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
async function start(s, d) {
  for (;;) {
    if (!await takeSlot(s, d) || !await s.isolation.gate.pass(s.stop, d.heldUntil)) return giveBack(s, d)
    const sent = await sendStart(s, d)
    let { next } = sent
    if (next === RUN) return enter(s, d)
    if (next === ISOLATE) return startIsolated(s, d)
    if (sent.error) next = await hold(s, d, START, sent.error)
    else if (next === WAIT) next = await holdFor(s, d, d.reply?.wait ?? 0, START)
    if (next !== START) return next
  }
}

/**
 * Begins an attempt with no other handler beside it. START, BEGUN and the step that closes the attempt are sent under
 * the isolation lock. START only reserves the attempt. From BEGUN on a death of this process counts against this
 * message, so BEGUN is the last thing before the handler: it goes out only to a store that has just replied.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
async function startIsolated(s, d) {
  for (;;) {
    if (!await lockAll(s, d)) return giveBack(s, d)
    d.mode = decideMode(s.isolation.abandoned)
    const sent = await sendStart(s, d)
    let { next, error } = sent
    if (next === RUN && d.mode === 'isolated' && !s.stop.done) error = await sendBegun(s, d)
    if (next === RUN && s.stop.done) {
      await close(s, d)
      next = LEAVE
      error = undefined
    } else if (next === RUN && !error) {
      return RUN
    }
    s.release(d)
    if (error) next = await hold(s, d, decideUnstarted(ISOLATE, d.open), error)
    else if (next === WAIT) next = await holdFor(s, d, d.reply?.wait ?? 0, ISOLATE)
    if (next === RETRACT) return retract(s, d)
    if (next !== ISOLATE) return next
  }
}

/**
 * Sends START. Unless the step for its reply is RUN, no attempt is open and d holds no slot.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<{ next: Step, error?: Error }>}
 */
async function sendStart(s, d) {
  d.open = true
  try {
    const { reply, next } = await send(s, d, async (options) => {
      try {
        const reply = await s.settings.counter.start(d.counted(), d.mode, s.limit, options)
        const next = decideStarted(reply.code)
        if (!next) throw new StoreError('unexpected reply', `START got ${reply.code}`)
        return { reply, next }
      } catch (err) {
        d.doubt ||= !notTaken(err)
        throw err
      }
    }, true)
    d.reply = reply
    d.unanswered = 0
    if (next === RUN) return { next }
    d.open = false
    s.leaveSlot(d)
    decided(s, d)
    if (next === DEAD_LETTER) {
      d.cause = reply.cause
      const counts = `(failed attempts: ${counted(reply)}, limit: ${reply.limit})`
      const why = reply.cause === 'too-old' ? 'its maximal age was reached' : 'the limit was reached'
      d.failure = new Error(reply.cause === 'skipped'
        ? `an operator skipped it ${counts}: ${reply.reason}`
        : `${why} ${counts}; the last: ${reply.reason}`
      )
    } else if (next === ISOLATE) {
      s.observe(d, 'isolate')
    }
    return { next }
  } catch (err) {
    s.leaveSlot(d)
    if (!d.doubt) { // nothing was opened
      d.open = false
      decided(s, d)
    }
    return { next: START, error: err instanceof Error ? err : new Error(textOf(err)) }
  }
}

/**
 * Tells the store that the handler of an isolated attempt is called now. After an error it must not be called.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Error | undefined>}
 */
async function sendBegun(s, d) {
  try {
    const { code } = await send(
      s,
      d,
      async (options) => {
        const reply = await s.settings.counter.begun(d.counted(), options)
        if (reply.code !== 'BEGUN' && reply.code !== 'GONE')
          throw new StoreError('unexpected reply', `BEGUN got ${reply.code}`)
        return reply
      },
      true
    )
    if (code === 'BEGUN') return undefined
    return new Error(
      'the attempt is not open any more: ' +
      'the store lost it, another consumer has the message, or an operator decided about it'
    )
  } catch (err) {
    return err instanceof Error ? err : new Error(textOf(err))
  }
}

/**
 * Waits for a worker and for one unit of the isolation lock.
 * An attempt that START let begin also waits for the gate. Meanwhile it has neither, so both serve first deliveries.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
async function enter(s, d) {
  for (;;) {
    if (!await s.takeWorker(d) || !await s.takeLock(d, 1)) return giveBack(s, d)
    if (!d.open || !s.isolation.gate.closed) return RUN
    s.release(d)
    if (!await s.isolation.gate.pass(s.stop, d.heldUntil)) return giveBack(s, d)
  }
}

/**
 * Waits until no other isolated attempt of the process is undecided, then for a worker and for the whole isolation
 * lock.
 * @param {Deliveries} s
 * @param {Delivery} d
 */
async function lockAll(s, d) {
  if (!await s.isolation.undecided.acquire(1, { stop: s.stop, until: d.heldUntil })) return false
  d.undecided = true
  return await s.takeWorker(d) && s.takeLock(d, EVERYTHING)
}

/** @param {Deliveries} s @param {Delivery} d */
async function takeSlot(s, d) {
  if (s.stop.done) return false
  d.slot ||= await s.slots.acquire(1, { stop: s.stop })
  return d.slot
}

/**
 * Returns the step of a delivery that got no further: the session stops, or it waited for as long as it may.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
export async function giveBack(s, d) {
  s.release(d)
  return s.stop.done ? LEAVE : overdue(s, d)
}

/**
 * The step for a delivery that was held for as long as it may be. An attempt that may be open is closed first:
 * the next receiver would take it for a crash. A dead letter gets no other attempt.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
export async function overdue(s, d) {
  if (!d.open) decided(s, d)
  if ((d.open || d.doubt) && !d.broken) return retract(s, d)
  const next = decideOverdue(d.broken !== undefined)
  if (next !== GIVE_UP) return next
  d.error = new WaitedTooLongError(
    `queue ${JSON.stringify(d.queue)}: a dead letter was held until its session ends: ${textOf(d.broken)}`,
    d.broken
  )
  return LEAVE
}

/**
 * Closes an attempt that did not run. It returns AGAIN if there is time for another.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
async function retract(s, d) {
  for (;;) {
    try {
      await sendEnd(s, d, false)
      break
    } catch (err) {
      const next = await hold(s, d, RETRACT, err)
      if (next !== RETRACT) return next
    }
  }
  return performance.now() < d.heldUntil ? AGAIN : overdue(s, d)
}

/**
 * Sends END, and throws if it was not taken.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @param {boolean} succeeded
 */
export async function sendEnd(s, d, succeeded) {
  await closing(s, d, (options) => s.settings.counter.end(d.counted(), succeeded, options))
}

/**
 * Sends a step that closes the attempt.
 * @template T
 * @param {Deliveries} s
 * @param {Delivery} d
 * @param {(options: { timeout: number }) => Promise<T>} step
 * @returns {Promise<T>}
 */
export async function closing(s, d, step) {
  try {
    const reply = await send(s, d, step)
    d.unanswered = 0
    d.open = d.doubt = false
    decided(s, d)
    return reply
  } catch (err) {
    if (err instanceof StoreError && err.fault === 'foreign') decided(s, d) // the open attempt is overwritten
    throw err
  }
}

/**
 * Holds a delivery for a wait. It returns the step that follows, or the one that replaces it.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @param {number} ms
 * @param {Step} after
 * @returns {Promise<Step>}
 */
export async function holdFor(s, d, ms, after) {
  const { wait, next } = decideWait(ms, d.heldUntil - performance.now(), after)
  switch (await waitUnlessSkipped(s.control, s.stop, d, wait)) {
    case 'stopped': return decideStopped(next) // the store keeps the rest of the wait
    case 'skipped': return after
    default: return next === OVERDUE ? overdue(s, d) : next
  }
}

/**
 * Holds a delivery after the store did not take a step.
 * It returns that step when it is to be sent again, or the one that comes instead.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @param {Step} sending
 * @param {unknown} error
 * @returns {Promise<Step>}
 */
export async function hold(s, d, sending, error) {
  d.unanswered++
  const wait = storeBackoff(d.unanswered)
  let left = d.heldUntil - performance.now()
  if (sending === RETRACT) left += s.settings.consumerTimeout / 4 // it begins when the delivery is overdue
  const next = decideOutage(sending, d.cause === 'rejected', wait, left)
  if (!s.stop.done && (d.unanswered === 1 || next === GIVE_UP)) s.observe(d, 'hold', { error })
  if (next === GIVE_UP) {
    d.error = new WaitedTooLongError(
      `queue ${JSON.stringify(d.queue)}: the store was out of reach for too long: ${textOf(error)}`,
      error
    )
    return LEAVE
  }
  if (next === sending && !await pause(wait, s.stop)) return decideStopped(sending)
  return next
}

/**
 * Closes an attempt that is not counted. If the store does not answer, that is done later.
 * @param {Deliveries} s
 * @param {Delivery} d
 */
export async function close(s, d) {
  if (!d.open) decided(s, d)
  if (!d.open && !d.doubt) return
  try {
    await sendEnd(s, d, false)
  } catch {
    endLater(s, d, false)
  }
}

/**
 * Sends END until the store answers, after the delivery is gone.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @param {boolean} succeeded
 */
export function endLater(s, d, succeeded) {
  const attempt = d.counted()
  d.open = d.doubt = false
  if (d.undecided) s.isolation.gate.shut() // the lock may be released before END is answered
  const over = handOver(s, d)
  // A handled message that was not acked comes back: as a suspect, unless the store has its END.
  s.late.add(() => s.settings.counter.end(attempt, succeeded), over ?? (succeeded && d.error ? () => {} : undefined))
}

/**
 * Sends FAIL until the store answers.
 * @param {Deliveries} s
 * @param {Delivery} d
 */
export function failLater(s, d) {
  const attempt = d.counted()
  const failure = failureOf(s, d)
  d.unrecorded = d.open = d.doubt = false // an END sent before this FAIL would reverse it
  s.late.add(() => s.settings.counter.fail(attempt, failure), handOver(s, d))
}

/**
 * Returns the failure that FAIL reports to the store.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {import('./counter.js').Failure}
 */
export function failureOf(s, d) {
  const failure = {
    limit: 0, cause: /** @type {import('./counter.js').Cause} */ (d.cause), reason: d.reason, ran: d.ran, wait: 0,
    atMost: 0
  }
  if (d.cause === 'rejected') return failure
  failure.limit = s.limit
  failure.wait = backoffOf(s, d, (d.reply ? counted(d.reply) : 0) + 1)
  failure.atMost = d.atMost
  return failure
}

/**
 * Returns the delay that the handler asked for, else the backoff after so many failed attempts.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @param {number} failed
 */
export function backoffOf(s, d, failed) {
  if (d.asked !== undefined) return d.asked
  try {
    const ms = s.settings.backoff(failed)
    if (Number.isFinite(ms)) return Math.max(ms, 0)
    throw new TypeError(`backoff returned ${ms}`)
  } catch (error) {
    const text = 'backoff threw or returned no number: the message waits for the default'
    s.settings.logger.error(text, { queue: d.queue, error })
    return defaultBackoff(failed)
  }
}

/**
 * Gives back the isolation lock. If the store has not answered for an isolated attempt, the gate is shut before.
 * @param {Deliveries} s
 * @param {Delivery} d
 */
export function unlock(s, d) {
  if (d.lock === 0) return
  if (d.isolated && d.undecided) s.isolation.gate.shut()
  s.isolation.lock.release(d.lock)
  d.lock = 0
}

/**
 * Ends the time in which a death of the process counts against d's message, if d is the undecided attempt.
 * @param {Deliveries} s
 * @param {Delivery} d
 */
export function decided(s, d) {
  handOver(s, d)?.()
}

/**
 * Returns a function to call, instead of decided, when the store has answered a step that outlives the delivery.
 * It returns undefined if d is not the undecided attempt.
 * @param {Deliveries} s
 * @param {Delivery} d
 */
function handOver(s, d) {
  if (!d.undecided) return undefined
  d.undecided = false
  return () => {
    s.isolation.gate.open()
    s.isolation.undecided.release(1)
  }
}
