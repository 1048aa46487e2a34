/** @typedef {'suspects' | 'off'} Isolation */
/** @typedef {'shared' | 'isolated' | 'untracked' | 'beside-abandoned'} Mode */
/**
 * The step for a new attempt: at a delivery that has just arrived, or at one that is tried again in place.
 * @param {boolean} hasID
 * @param {boolean} first the delivery is not redelivered, and this is its first attempt
 * @returns {Step}
 */
export function decideReceived(hasID: boolean, first: boolean): Step;
/**
 * The step for the store's verdict on START; undefined for one that START does not have.
 * @param {string} verdict
 * @returns {Step | undefined}
 */
export function decideStarted(verdict: string): Step | undefined;
/**
 * The mode of START for an isolated attempt. An abandoned handler may still run beside it and kill the process, which must not
 * count against this message.
 * @param {number} abandoned
 * @returns {Mode}
 */
export function decideMode(abandoned: number): Mode;
/**
 * The step to hold the delivery for after a START or BEGUN without a verdict that lets the handler run. If the attempt is isolated
 * and may be open, it must be closed first.
 * @param {Step} sending
 * @param {boolean} open
 * @returns {Step}
 */
export function decideUnstarted(sending: Step, open: boolean): Step;
/**
 * The step after the handler ended. A success or a rejection counts even while stopping: both are the handler's own decision
 * about the message.
 * @param {object} ended
 * @param {boolean} ended.ok the handler returned
 * @param {boolean} ended.rejected it asked for the dead-letter queue
 * @param {boolean} ended.stopped it was cancelled, or was about to be: the failure may be no fault of the message's
 * @param {boolean} ended.hasID
 * @param {boolean} ended.open START let it begin
 * @returns {Step}
 */
export function decideEnded({ ok, rejected, stopped, hasID, open }: {
    ok: boolean;
    rejected: boolean;
    stopped: boolean;
    hasID: boolean;
    open: boolean;
}): Step;
/**
 * The step for the store's verdict on FAIL; undefined for one that FAIL does not have.
 * @param {string} verdict
 * @returns {Step | undefined}
 */
export function decideFailed(verdict: string): Step | undefined;
/**
 * The step after the backoff of a failed attempt.
 * @param {'requeue' | 'in-place'} retry
 * @returns {Step}
 */
export function decideRetry(retry: "requeue" | "in-place"): Step;
/**
 * Bounds a wait by what is left of the time for which the delivery may be held. If the wait does not fit, the delivery is
 * overdue after it: the store keeps the rest of the wait for the next receiver.
 * @param {number} wait
 * @param {number} left
 * @param {Step} after
 * @returns {{ wait: number, next: Step }}
 */
export function decideWait(wait: number, left: number, after: Step): {
    wait: number;
    next: Step;
};
/**
 * The step for a delivery that was held for as long as it may be. A dead letter whose route is broken does not go back alone:
 * a requeue would count towards a delivery limit.
 * @param {boolean} broken
 * @returns {Step}
 */
export function decideOverdue(broken: boolean): Step;
/**
 * The step after the store did not take one: the same after a wait, or what ends the hold. A delivery that was handled is acked
 * anyway, and a rejected one is dead-lettered. Nothing else is decided on a guess.
 * @param {Step} sending
 * @param {boolean} rejected
 * @param {number} wait
 * @param {number} left
 * @returns {Step}
 */
export function decideOutage(sending: Step, rejected: boolean, wait: number, left: number): Step;
/**
 * The step after a stop ended a wait, instead of the one that would have followed.
 * @param {Step} after
 * @returns {Step}
 */
export function decideStopped(after: Step): Step;
export const START: Step;
export const ISOLATE: Step;
export const RUN: Step;
export const AGAIN: Step;
export const FAIL: Step;
export const END: Step;
export const WAIT: Step;
export const RETRACT: Step;
export const OVERDUE: Step;
export const ACK: Step;
export const STALE: Step;
export const REQUEUE: Step;
export const DEAD_LETTER: Step;
export const LEAVE: Step;
export const GIVE_UP: Step;
export type Isolation = "suspects" | "off";
export type Mode = "shared" | "isolated" | "untracked" | "beside-abandoned";
export type Step = "start" | "isolate" | "run" | "again" | "fail" | "end" | "wait" | "retract" | "overdue" | "ack" | "stale" | "requeue" | "dead-letter" | "leave" | "give-up";
