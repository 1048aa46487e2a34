// Decides the next step of a delivery. Each function takes the last event and returns the step that follows. Together
// they are the whole state table. start.js, conclude.js and deliveries.js take the steps.

/**
 * @typedef {'start' | 'isolate' | 'run' | 'again' | 'fail' | 'end' | 'wait' | 'retract' | 'uncount' | 'uncounted' |
 *   'overdue' | 'ack' | 'superseded' | 'requeue' | 'dead-letter' | 'leave' | 'give-up'} Step
 */

/** @type {{ [name: string]: Step }} */
const steps = {
  START: 'start', // ask the store whether the attempt may begin
  ISOLATE: 'isolate', // the same, with no other handler beside it
  RUN: 'run', // call the handler
  AGAIN: 'again', // begin another attempt at this delivery
  FAIL: 'fail', // count the failed attempt
  END: 'end', // close an attempt that succeeded
  WAIT: 'wait', // hold the delivery for its backoff
  RETRACT: 'retract', // close an attempt that did not run
  UNCOUNT: 'uncount', // close an attempt that is not counted; another one follows here after a wait
  UNCOUNTED: 'uncounted', // the failure was reported and is not counted; another attempt follows here after a wait
  OVERDUE: 'overdue', // the delivery was held for as long as it may be
  ACK: 'ack',
  SUPERSEDED: 'superseded', // ack: another copy takes the place of this one
  REQUEUE: 'requeue',
  DEAD_LETTER: 'dead-letter',
  LEAVE: 'leave', // the delivery returns with its session; nothing is counted
  GIVE_UP: 'give-up', // the same, and the session ends: the delivery was held for too long
}
export const {
  START, ISOLATE, RUN, AGAIN, FAIL, END, WAIT, RETRACT, UNCOUNT, UNCOUNTED, OVERDUE, ACK, SUPERSEDED, REQUEUE,
  DEAD_LETTER, LEAVE, GIVE_UP
} = steps

/** @typedef {'suspects' | 'off'} Isolation */
/** @typedef {'shared' | 'isolated' | 'untracked' | 'beside-abandoned'} Mode */

/**
 * The step for a new attempt: at a delivery that has just arrived, or at one that is tried again in place.
 * @param {boolean} hasID
 * @param {boolean} first the delivery is not redelivered, and this is its first attempt
 * @returns {Step}
 */
export function decideReceived(hasID, first) {
  if (!hasID) return first ? RUN : DEAD_LETTER
  return first ? RUN : START
}

/**
 * The step for the store's reply to START; undefined for one that START does not have.
 * @param {string} code
 * @returns {Step | undefined}
 */
export function decideStarted(code) {
  switch (code) {
    case 'RUN': return RUN
    case 'SUSPECT': return ISOLATE
    case 'EXHAUSTED': return DEAD_LETTER
    case 'WAIT': return WAIT
    case 'SUPERSEDED': return SUPERSEDED
    default: return undefined
  }
}

/**
 * The mode of START for an isolated attempt.
 * An abandoned handler may still run beside it and kill the process, which must not count against this message.
 * @param {number} abandoned
 * @returns {Mode}
 */
export function decideMode(abandoned) {
  return abandoned > 0 ? 'beside-abandoned' : 'isolated'
}

/**
 * The step to repeat after a START or BEGUN that had no reply which lets the handler run.
 * An isolated attempt that may be open is closed first.
 * @param {Step} sending
 * @param {boolean} open
 * @returns {Step}
 */
export function decideUnstarted(sending, open) {
  return sending === ISOLATE && open ? RETRACT : sending
}

/**
 * The step after the handler ended. A success or a rejection counts even while stopping:
 * both are the handler's own decision about the message.
 * @param {object} ended
 * @param {boolean} ended.ok the handler returned
 * @param {boolean} ended.rejected it asked for the dead-letter queue
 * @param {boolean} [ended.uncounted] it said that the attempt is not counted
 * @param {boolean} ended.stopped it was cancelled, or was about to be: the failure may be no fault of the message's
 * @param {boolean} ended.hasID
 * @param {boolean} ended.open START let it begin
 * @returns {Step}
 */
export function decideEnded({ ok, rejected, uncounted = false, stopped, hasID, open }) {
  if (ok) return open ? END : ACK
  if (stopped && !rejected) return LEAVE
  if (uncounted && !rejected) return UNCOUNT
  return hasID ? FAIL : DEAD_LETTER
}

/**
 * The step for the store's reply to FAIL; undefined for one that FAIL does not have.
 * @param {string} code
 * @returns {Step | undefined}
 */
export function decideFailed(code) {
  switch (code) {
    case 'EXHAUSTED': return DEAD_LETTER
    case 'REQUEUE': return WAIT
    case 'UNCOUNTED': return UNCOUNTED
    case 'SUPERSEDED': return SUPERSEDED
    default: return undefined
  }
}

/**
 * The step after the backoff of a failed attempt.
 * @param {'requeue' | 'in-place'} retry
 * @returns {Step}
 */
export function decideRetry(retry) {
  return retry === 'in-place' ? AGAIN : REQUEUE
}

/**
 * Bounds a wait by the rest of the time for which the delivery may be held. If the wait does not fit, the delivery
 * is overdue after it: the store keeps the rest of the wait for the next receiver.
 * @param {number} wait
 * @param {number} left
 * @param {Step} after
 * @returns {{ wait: number, next: Step }}
 */
export function decideWait(wait, left, after) {
  return wait <= left ? { wait: Math.max(wait, 0), next: after } : { wait: Math.max(left, 0), next: OVERDUE }
}

/**
 * The step for a delivery that was held for as long as it may be.
 * A dead letter whose route is broken returns with its session: a requeue would count towards a delivery limit.
 * @param {boolean} broken
 * @returns {Step}
 */
export function decideOverdue(broken) {
  return broken ? GIVE_UP : REQUEUE
}

/**
 * The step after the store did not take one: the same after a wait, or the one that ends the hold. A delivery that was
 * handled is acked anyway, and a rejected one is dead-lettered. Nothing else is decided on a guess.
 * @param {Step} sending
 * @param {boolean} rejected
 * @param {number} wait
 * @param {number} left
 * @returns {Step}
 */
export function decideOutage(sending, rejected, wait, left) {
  if (sending === FAIL && rejected) return DEAD_LETTER
  if (wait <= left) return sending
  return sending === END ? ACK : GIVE_UP
}

/**
 * The step after a stop ended a wait, instead of the one that would have followed.
 * @param {Step} after
 * @returns {Step}
 */
export function decideStopped(after) {
  return after === END ? ACK : LEAVE
}
