import { StoreError } from './errors.js'

/**
 * The code of a reply. START answers RUN, WAIT, SUSPECT or EXHAUSTED. BEGUN answers BEGUN or GONE. FAIL answers REQUEUE
 * or EXHAUSTED, and with a breaker also UNCOUNTED. END answers ENDED. To a copy from a delay queue START and FAIL also
 * answer SUPERSEDED.
 * @typedef {'RUN' | 'WAIT' | 'SUSPECT' | 'EXHAUSTED' | 'REQUEUE' | 'ENDED' | 'SUPERSEDED' | 'BEGUN' |
 *   'GONE' | 'UNCOUNTED'} ReplyCode
 */

/**
 * The store's reply to a step.
 * @typedef {object} Reply
 * @property {ReplyCode} code
 * @property {number} failures counted attempts whose handler failed
 * @property {number} crashes counted attempts whose process died
 * @property {number} limit in force: the operator's, else the one that the step was given
 * @property {number} fence of the last attempt that START let run; 0: there is none
 * @property {number} wait ms until the next attempt may begin
 * @property {string} cause EXHAUSTED: of the last counted attempt; else empty
 * @property {string} reason EXHAUSTED: of the last counted attempt, for people; else empty
 * @property {boolean} possibleDuplicate this step is the first sign that two messages have this id
 */

const CODES = new Set([
  'RUN', 'WAIT', 'SUSPECT', 'EXHAUSTED', 'REQUEUE', 'ENDED', 'SUPERSEDED', 'BEGUN', 'GONE', 'UNCOUNTED'
])

/** @type {Record<string, Set<string>>} */
const OF_STEP = {
  start: new Set(['RUN', 'WAIT', 'SUSPECT', 'EXHAUSTED', 'SUPERSEDED']), begun: new Set(['BEGUN', 'GONE']),
  fail: new Set(['REQUEUE', 'EXHAUSTED', 'UNCOUNTED', 'SUPERSEDED']), end: new Set(['ENDED']),
}

/**
 * Reads a script's reply to one step. Nothing is decided from a reply that it refuses.
 * @param {unknown} reply
 * @param {'start' | 'begun' | 'fail' | 'end'} [step] that may answer only with its own replies
 * @returns {Reply}
 */
export function parseReply(reply, step) {
  if (!Array.isArray(reply) || reply.length < 9 || reply.length > 10)
    throw unexpected('want 9 values, and the copy number')
  const code = text(reply[0])
  if (!(step ? OF_STEP[step] : CODES).has(code)) throw unexpected(`code ${JSON.stringify(code.slice(0, 80))}`)
  const [failures, crashes, limit, fence, wait] = reply.slice(1, 6).map(count)
  return {
    code: /** @type {ReplyCode} */ (code), failures, crashes, limit, fence, wait,
    cause: text(reply[6]), reason: text(reply[7]), possibleDuplicate: count(reply[8]) === 1,
  }
}

/** @param {unknown} value */
function count(value) {
  if (typeof value !== 'number' || value < 0) throw unexpected('want a count')
  return value
}

/** @param {unknown} value */
function text(value) {
  return Buffer.isBuffer(value) || typeof value === 'string' ? value.toString() : ''
}

/** @param {string} why */
function unexpected(why) {
  return new StoreError(
    'unexpected reply',
    `${why}; the server is no Redis, or something between it and this process changes replies`
  )
}

/**
 * The number of counted attempts, which the limit bounds.
 * @param {{ failures: number, crashes: number }} r
 */
export function counted(r) {
  return r.failures + r.crashes
}
