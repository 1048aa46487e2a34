import { cut, MAX_REASON, MAX_STORED } from './bytes.js'
import { FieldError, StoreError } from './errors.js'
import { MAX_FENCE } from './generation.js'
import { controlKeys, DEFAULT_PREFIX, member, queueKey } from './key.js'
import { parseReply } from './reply.js'
import { scripts } from './scripts.js'
import { dialStore, refuseClient, Store, storeError } from './store.js'

const MINUTE = 60_000
const KEEP_DONE = 10 * MINUTE
const PAUSE_TTL = 30 * 24 * 60 * MINUTE
const UNDECODABLE_TTL = MINUTE
const WAITING_TTL = 3000
const MAX_WAITING_REASON = 512 // bytes
const MAX_LIMIT = 1001

/** How long a record outlives its last write, in ms: 7 days. */
export const DEFAULT_TTL = 7 * 24 * 60 * MINUTE

/** @typedef {import('./reply.js').Reply} Reply */
/** @typedef {import('./decide.js').Mode} Mode */

/**
 * Why an attempt failed.
 * @typedef {'failed' | 'panicked' | 'timed-out' | 'rejected' | 'crashed' | 'not-counted'} Cause
 */

/**
 * The subject of a count: one generation of one message in one queue.
 * @typedef {object} Message
 * @property {string} vhost
 * @property {string} queue
 * @property {string | Buffer} id must not be empty; bytes if it is not UTF-8
 * @property {string | Buffer} [generation] empty until the message is dead-lettered and comes back
 */

/**
 * One call of a handler for a message.
 * @typedef {Message & CountedOnly} CountedAttempt
 */
/**
 * @typedef {object} CountedOnly
 * @property {string} token unique to this attempt: 1 to 64 of A-Z a-z 0-9 _ -
 * @property {string} [consumer] the process, shown to operators
 * @property {boolean} [first] the delivery is not redelivered, and this is its first attempt
 * @property {number} [received] when this process received the delivery, by performance.now();
 *   only a first attempt needs it
 * @property {number} [fence] the fence that the delivery carries
 * @property {number} [maxAge] ms; a message that fails later than this after its first counted attempt is exhausted;
 *   an override replaces it; 0: none
 * @property {Progress} [progress] of a process with a breaker
 * @property {string} [delay] of a copy that waited in a delay queue:
 *   the last argument of START and FAIL, as docs/protocol.md says
 */

/**
 * The progress of a process with a breaker. Times are by performance.now(); undefined: there is none.
 * @typedef {object} Progress
 * @property {number} breaker messages that fail, with no success since, at which failures count no more
 * @property {number} patience ms for which a last attempt does not count without a success of another message
 * @property {number | undefined} began the latest begin of a success
 * @property {number | undefined} ended the latest end of a success
 * @property {number | undefined} attempt when the attempt began that failed
 * @property {boolean} failing so many messages failed in this process since its last success
 */

/**
 * The breaker of a queue. Times are ms by the store's clock; 0: not so.
 * @typedef {object} BreakerState
 * @property {boolean} permitted the process may begin three attempts
 * @property {number} now
 * @property {number} success the latest known begin of a success
 * @property {number} doubt since when the queue is in doubt
 * @property {number} open since when it is open
 * @property {number} next when the next permit may be given
 * @property {number} count until when an operator wants all failures counted
 * @property {number} failed messages that failed since the last success
 * @property {number} permits given since the opening
 * @property {string} reason of the last of those that failed
 */

/**
 * A failed attempt, as FAIL counts it.
 * @typedef {object} Failure
 * @property {number} limit counted attempts at which the message is exhausted; 0: it is exhausted now; at most 1001
 * @property {number} [wait] ms until the next attempt may begin
 * @property {Cause} [cause] 'failed' if absent
 * @property {string | Buffer} [reason] for people; cut to 1024 bytes
 * @property {number} [ran] ms that the handler ran, for people
 * @property {number} [atMost] counted attempts at which a message with this failure is exhausted;
 *   it only lowers the limit. 0: none
 */

/**
 * The requests of operators to the consumers of a queue.
 * @typedef {object} Control
 * @property {boolean} paused
 * @property {string} by who paused or resumed it
 * @property {string} why
 * @property {number} at ms since 1970
 * @property {Set<string>} skips names of the messages that were skipped, as member() returns them
 */

/** Counts on Redis. All consumers of a queue, in any language, share its counts. */
export class Counter {
  /**
   * @param {import('ioredis').Redis} redis of its own, with the settings that dial makes; the caller closes it
   * @param {object} [options]
   * @param {string} [options.prefix] of every key; 'strikes:1' if absent. Two brokers that share a Redis need one each
   * @param {number} [options.ttl] ms that a record outlives its last write; 7 days if absent, a minute at least
   */
  constructor(redis, { prefix = DEFAULT_PREFIX, ttl = DEFAULT_TTL } = {}) {
    const refused = refuseClient(redis)
    if (refused) throw refused
    if (typeof prefix !== 'string' || prefix === '' || /[{}]/.test(prefix))
      throw new FieldError('prefix', prefix, 'a text without { and }')
    if (!Number.isSafeInteger(ttl) || ttl < MINUTE)
      throw new FieldError('ttl', ttl, 'ms, 60000 at least, and longer than the longest time between two attempts')
    this.prefix = prefix
    /** ms that a record is kept after its last write */
    this.ttl = ttl
    this.redis = redis
    this.store = new Store(redis)
    /** @type {Map<string, string>} */
    this.queueKeys = new Map()
  }

  /**
   * Asks whether an attempt at a redelivered message may run, and opens it. After an error it may or may not be open:
   * start again with the same token, or end. Mode 'isolated' only reserves the attempt: call begun before its handler.
   * @param {CountedAttempt} attempt
   * @param {Mode} mode which other handlers may run in this process meanwhile
   * @param {number} limit counted attempts at which the message is exhausted, 1 to 1001
   * @param {{ timeout?: number }} [options] ms; 1000 if absent
   * @returns {Promise<Reply>}
   */
  async start(attempt, mode, limit, { timeout = 1000 } = {}) {
    if (!(limit >= 1)) throw new FieldError('limit', limit, '1 at least')
    return this.step(
      'start', attempt, Math.min(limit, MAX_LIMIT),
      [mode, attempt.fence ?? 0, ceil(attempt.maxAge ?? 0), ...carried(attempt)],
      timeout
    )
  }

  /**
   * Makes an isolated attempt countable, which START has let run. If it is still open at the next START, that START
   * counts a crash. Call it immediately before the handler, and call the handler only after the reply BEGUN. After GONE
   * the attempt is not open: end it, and begin another one. After an error it may or may not be countable: call begun
   * again with the same token, or end.
   * @param {CountedAttempt} attempt
   * @param {{ timeout?: number }} [options] ms; 1000 if absent
   * @returns {Promise<Reply>}
   */
  async begun(attempt, { timeout = 1000 } = {}) {
    return this.step('begun', attempt, 0, [], timeout)
  }

  /**
   * Counts a failed attempt. After an error it may or may not be counted:
   * fail again with the same token, which counts it once.
   * @param {CountedAttempt} attempt
   * @param {Failure} failure
   * @param {{ timeout?: number }} [options] ms; 1000 if absent
   * @returns {Promise<Reply>}
   */
  async fail(attempt, failure, { timeout = 1000 } = {}) {
    const { limit, wait = 0, cause = 'failed', reason = '', ran = 0, atMost = 0 } = failure
    if (!['failed', 'panicked', 'timed-out', 'rejected', 'crashed', 'not-counted'].includes(cause))
      throw new FieldError('cause', cause, 'failed, panicked, timed-out, rejected, crashed or not-counted')
    if (!Number.isSafeInteger(atMost) || atMost < 0) throw new FieldError('atMost', atMost, '0 at least')
    const args = [
      ceil(wait), cause, cut(reason, MAX_REASON), Math.floor(Math.max(ran, 0)), ceil(attempt.maxAge ?? 0),
      Math.min(atMost, MAX_LIMIT), ...carried(attempt)
    ]
    return this.step('fail', attempt, Math.min(Math.max(limit, 0), MAX_LIMIT), args, timeout)
  }

  /**
   * Closes an attempt that START let run and that is not counted. If it was counted as a crash meanwhile, that is
   * reversed. After an error it may or may not be closed: end again with the same token.
   * @param {CountedAttempt} attempt
   * @param {boolean} succeeded
   * @param {{ timeout?: number }} [options] ms; 1000 if absent
   * @returns {Promise<Reply>}
   */
  async end(attempt, succeeded, { timeout = 1000 } = {}) {
    return this.step('end', attempt, 0, [succeeded ? 1 : 0, KEEP_DONE], timeout)
  }

  /**
   * @param {'start' | 'begun' | 'fail' | 'end'} name
   * @param {CountedAttempt} a
   * @param {number} limit
   * @param {(string | number | Buffer)[]} own arguments of the step
   * @param {number} timeout
   */
  async step(name, a, limit, own, timeout) {
    checkAttempt(a)
    const { keys, args } = this.argumentsOf(a, limit, own)
    const reply = await this.store.run(scripts[name], keys, args, timeout)
    if (!Array.isArray(reply) || reply.length !== 1) throw new StoreError('unexpected reply', 'want a list of 1')
    if (reply[0] instanceof Error) throw storeError(reply[0]) // it fails this step and no other of the call
    return parseReply(reply[0], name)
  }

  /**
   * The keys and arguments of a step, which scripts/record.lua describes.
   * @param {CountedAttempt} a
   * @param {number} limit
   * @param {(string | number | Buffer)[]} own
   */
  argumentsOf(a, limit, own) {
    const q = this.queueKey(a.vhost, a.queue)
    const keys = [q + 'index', q + 'limit', q + 'tombstones', q + 'dead', q + 'r:' + member(a.id, a.generation ?? '')]
    const args = [
      this.ttl, a.token, cut(a.id, MAX_STORED), cut(a.generation ?? '', MAX_STORED), cut(a.consumer ?? '', MAX_STORED),
      limit, ageOf(a), ...own
    ]
    return { keys, args }
  }

  /** @param {string} vhost @param {string} queue */
  queueKey(vhost, queue) {
    const name = vhost + '\0' + queue
    let key = this.queueKeys.get(name)
    if (key === undefined) {
      key = queueKey(this.prefix, vhost, queue)
      if (this.queueKeys.size < 1000) this.queueKeys.set(name, key)
    }
    return key
  }

  /**
   * Reads the pause and the skips of a queue, and reports the reader to operators.
   * After an error the last Control stands.
   * @param {string} vhost
   * @param {string} queue
   * @param {{ token: string, consumer: string, state: 'consuming' | 'breaker' | 'stopped' | 'left' }} reader
   * @param {{ timeout?: number }} [options] ms; 500 if absent
   * @returns {Promise<Control>}
   */
  async control(vhost, queue, reader, { timeout = 500 } = {}) {
    const k = controlKeys(vhost, queue, this.prefix)
    const args = [reader.token, cut(reader.consumer, MAX_STORED), reader.state, PAUSE_TTL]
    const reply = await this.store.run(scripts.control, [k.pause, k.consumers, k.skips], args, timeout)
    if (!Array.isArray(reply) || reply.length < 4) throw new StoreError('unexpected reply', 'want 4 values at least')
    const [paused, by, at, why, ...skips] = reply.map(String)
    return { paused: paused === '1', by, why, at: Number(at), skips: new Set(skips) }
  }

  /**
   * Reports the progress of a process with a breaker, and reads the breaker of the queue.
   * @param {string} vhost
   * @param {string} queue
   * @param {Progress} progress
   * @param {boolean} wants the process has a message to run: it asks for a permit
   * @param {{ timeout?: number }} [options] ms; 500 if absent
   * @returns {Promise<BreakerState>}
   */
  async askBreaker(vhost, queue, progress, wants, { timeout = 500 } = {}) {
    const reply = await this.store.run(
      scripts.ask, [this.queueKey(vhost, queue) + 'index'],
      [this.ttl, progressText(progress), wants ? 1 : 0], timeout
    )
    if (!Array.isArray(reply) || reply.length !== 10 || reply.slice(0, 9).some((n) => typeof n !== 'number'))
      throw new StoreError('unexpected reply', 'want 9 numbers and a text')
    const [permitted, now, success, doubt, open, next, count, failed, permits, reason] = reply
    return {
      permitted: permitted === 1, now, success, doubt, open, next, count, failed, permits, reason: String(reason)
    }
  }

  /**
   * Reads how many lanes of a queue are blocked by dead letters.
   * @param {string} vhost
   * @param {string} queue
   * @param {{ timeout?: number }} [options] ms; 500 if absent
   * @returns {Promise<number>}
   */
  async blockedLanes(vhost, queue, { timeout = 500 } = {}) {
    const reply = await this.store.command(
      ['zcard', this.queueKey(vhost, queue) + 'lanes'],
      performance.now() + timeout
    )
    if (typeof reply !== 'number') throw new StoreError('unexpected reply', 'want the number of blocked lanes')
    return reply
  }

  /**
   * Reports the messages that wait in this process because their attempts are not counted.
   * @param {string} vhost
   * @param {string} queue
   * @param {string} reader the token of the process
   * @param {{ messages: number, ms: number, why: string }} waiting
   * @param {{ timeout?: number }} [options] ms; 500 if absent
   */
  async reportWaiting(vhost, queue, reader, { messages, ms, why }, { timeout = 500 } = {}) {
    const text = Buffer.concat([Buffer.from(`${messages} ${Math.ceil(ms)} `), cut(why, MAX_WAITING_REASON)])
    const key = this.queueKey(vhost, queue) + 'waiting:' + reader
    await this.store.command(['set', key, text, 'px', WAITING_TTL], performance.now() + timeout)
  }

  /**
   * Notes for a minute that a message ended a session which the client cannot decode, for strikes status.
   * @param {string} vhost
   * @param {string} queue
   * @param {string} why
   * @param {{ timeout?: number }} [options] ms; 1000 if absent
   */
  async noteUndecodable(vhost, queue, why, { timeout = 1000 } = {}) {
    const key = this.queueKey(vhost, queue) + 'undecodable'
    await this.store.command(['set', key, cut(why, MAX_REASON), 'px', UNDECODABLE_TTL], performance.now() + timeout)
  }

  /** Throws if the store does not reply, or refuses. */
  async check() {
    await this.store.command(['ping'], performance.now() + 1000)
  }

  /** Closes the client. Steps under way fail. */
  close() {
    this.redis.disconnect()
  }
}

/**
 * Opens a Redis for a Counter. It connects in the background; close it with counter.close().
 * @param {string} url redis://, rediss:// or unix://
 * @param {{ prefix?: string, ttl?: number, redis?: import('ioredis').RedisOptions }} [options] of the Counter; redis:
 *   more of ioredis, such as sentinels and name. Settings by which ioredis would queue, repeat or change commands have
 *   no effect
 * @returns {Counter}
 */
export function dial(url, { redis, ...options } = {}) {
  const client = dialStore(url, redis)
  try {
    return new Counter(client, options)
  } catch (err) {
    client.disconnect()
    throw err
  }
}

/** @param {CountedAttempt} a */
function checkAttempt(a) {
  if (!a.queue) throw new FieldError('queue', a.queue, "the name of the message's queue")
  if (!a.id || a.id.length === 0)
    throw new FieldError('id', '', 'the id of the message, which cannot be counted without one')
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(a.token))
    throw new FieldError('token', a.token, '1 to 64 characters of A-Z a-z 0-9 _ -')
  const fence = a.fence ?? 0
  if (!Number.isSafeInteger(fence) || fence < 0 || fence > MAX_FENCE)
    throw new FieldError('fence', fence, `0 to ${MAX_FENCE}`)
  if (!((a.maxAge ?? 0) >= 0)) throw new FieldError('maxAge', a.maxAge, 'ms, 0 at least')
}

/**
 * The last arguments of START and FAIL.
 * @param {CountedAttempt} a
 */
function carried({ progress, delay }) {
  return [...progress ? [progressText(progress)] : [], ...delay ? [delay] : []]
}

/**
 * The argument of a step that is sent now. Ages are rounded up, so that no success seems later than it was.
 * @param {Progress} p
 */
function progressText({ breaker, patience, began, ended, attempt, failing }) {
  const ages = [began, ended, attempt].map((at) => at === undefined ? -1 : ceil(performance.now() - at))
  return ['progress', breaker, ceil(patience), ...ages, failing ? 1 : 0].join(' ')
}

/**
 * How many ms this process has had the delivery of a first attempt; -1 for other attempts.
 * @param {CountedAttempt} a
 */
function ageOf(a) {
  if (!a.first) return -1
  return a.received === undefined ? 0 : ceil(performance.now() - a.received)
}

/**
 * Rounds up, so that a stored wait is never shorter than the requested one.
 * @param {number} ms
 */
function ceil(ms) {
  return Math.min(Math.ceil(Math.max(ms, 0)), 9_223_372_036_854)
}
