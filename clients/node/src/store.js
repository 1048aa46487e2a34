import { Redis } from 'ioredis'
import { FieldError, StoreError } from './errors.js'

/** @typedef {import('ioredis').RedisOptions} RedisOptions */
/** @typedef {import('./scripts.js').Script} Script */
/** @typedef {import('./errors.js').Fault} Fault */

/**
 * The settings that keep ioredis from repeating or queueing commands unseen.
 * The protocol repeats steps itself, because only it knows for how long a delivery may be held, and with which token.
 *
 *   enableOfflineQueue false             a command is refused while there is no connection, instead of sent later
 *   maxRetriesPerRequest 0               a command whose connection broke fails immediately, undecided
 *   autoResendUnfulfilledCommands false  it is not sent again on the next connection
 *   enableReadyCheck true                without it, ioredis 5.11.1 can take a broken connection for ready
 *                                        and never replace it
 *   reconnectOnError null                with it, ioredis may send a command again
 *   enableAutoPipelining false           with it, ioredis 5.11.1 sends the steps as a command that no server knows
 *   stringNumbers false                  the numbers in replies must be numbers
 */
const SAFE = {
  enableOfflineQueue: false, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false, enableReadyCheck: true,
  reconnectOnError: null, enableAutoPipelining: false, stringNumbers: false
}

/**
 * Opens a client with safe settings. It connects in the background and reconnects by itself.
 * @param {string} url redis://, rediss:// or unix://
 * @param {RedisOptions} [options] more of ioredis, such as sentinels and name
 * @returns {Redis}
 */
export function dialStore(url, options = {}) {
  const scheme = /^([^:]*):\/\//.exec(url)?.[1] ?? ''
  if (!['redis', 'rediss', 'unix'].includes(scheme)) {
    throw new FieldError(
      "the scheme of the store's URL", scheme.slice(0, 20),
      'redis, rediss or unix, because this package counts in Redis only (with another store use strikes consume, ' +
      'with --http for example)'
    )
  }
  const path = /^unix:\/\/(\/[^?]*)/.exec(url)
  const all = {
    connectTimeout: 2000, retryStrategy: reconnectDelay, keepAlive: 10_000, noDelay: true,
    disableClientInfo: true, maxLoadingRetryTime: 500,
    ...options, ...SAFE,
  }
  return path ? new Redis({ path: decodeURIComponent(path[1]), ...all }) : new Redis(url, all)
}

/** @param {number} times */
function reconnectDelay(times) {
  return Math.min(20 * 2 ** Math.min(times, 6), 1000) * (0.5 + Math.random() / 2)
}

/**
 * Returns the error of a client that must not be used, else undefined.
 * @param {any} redis
 * @returns {Error | undefined}
 */
export function refuseClient(redis) {
  if (!redis || typeof redis.callBuffer !== 'function') return new FieldError('redis', redis, 'a client of ioredis 5')
  if (redis.isCluster) {
    return new FieldError(
      'redis', 'a Cluster', 'a client of one server or of Sentinel: ioredis sends commands to a Cluster again, unseen'
    )
  }
  for (const [name, want] of Object.entries(SAFE)) {
    if (redis.options?.[name] !== want)
      return new FieldError(`redis.options.${name}`, redis.options?.[name], `${want}, or the client made by dial`)
  }
  if (redis.options.keyPrefix)
    return new FieldError('redis.options.keyPrefix', redis.options.keyPrefix, 'empty; use the prefix of the Counter')
  return undefined
}

const SILENT = 1000 // ms after a step was sent. If no byte has come by then, its connection is replaced

/** Sends scripts to one ioredis client. No command is sent twice. */
export class Store {
  /** @param {Redis} redis */
  constructor(redis) {
    redis.setMaxListeners(0) // each step under way has some
    this.redis = redis
    /** @type {Error | undefined} */
    this.lastError = undefined
    /**
     * ioredis goes on without credentials that were refused, as another user, and without a database that does not
     * exist, in database 0.
     * @type {StoreError | undefined}
     */
    this.refused = undefined
    redis.on('connect', () => { this.refused = undefined })
    redis.on('error', (err) => {
      this.lastError = err
      const failed = storeError(err)
      if (failed.fault === 'denied' || failed.fault === 'not set up') this.refused = failed
    })
    redis.on('ready', () => { this.lastError = undefined })
  }

  /**
   * Runs a script by its hash. If the server does not know the script, nothing was run, and the source is sent.
   * @param {Script} script
   * @param {string[]} keys
   * @param {(string | Buffer | number)[]} args
   * @param {number} timeout ms
   * @returns {Promise<unknown>}
   */
  async run(script, keys, args, timeout) {
    const until = performance.now() + timeout
    try {
      return await this.command(['evalsha', script.sha1, keys.length, ...keys, ...args], until)
    } catch (err) {
      if (!(err instanceof StoreError) || !isReply(err.cause, 'NOSCRIPT')) throw err
      return this.command(['eval', script.source, keys.length, ...keys, ...args], until)
    }
  }

  /**
   * @param {(string | Buffer | number)[]} words
   * @param {number} until
   * @returns {Promise<unknown>}
   */
  async command(words, until) {
    if (this.redis.status !== 'ready' || !(/** @type {any} */ (this.redis).stream?.writable)) await this.ready(until)
    if (this.refused) throw this.refused
    /** @type {any} */
    const stream = this.redis.stream
    const received = stream?.bytesRead
    const given = until - performance.now()
    /** @type {NodeJS.Timeout | undefined} */
    let timer
    /** @type {NodeJS.Immediate | undefined} */
    let read
    /** @type {Promise<never>} */
    const late = new Promise((_, reject) => {
      const over = () => {
        reject(new StoreError('slow', 'no reply in time; the step may or may not have been taken'))
        // A connection that is silent may be dead; the steps behind this one would wait for it, too.
        const look = () => { if (stream?.bytesRead === received) stream?.destroy() }
        setTimeout(() => setImmediate(look), SILENT - given).unref()
      }
      // After a handler that blocked the event loop, timers fire before it reads the replies that have arrived.
      timer = setTimeout(() => { read = setImmediate(over) }, Math.max(until - performance.now(), 1))
    })
    try {
      const [name, ...args] = words
      return await Promise.race([/** @type {any} */ (this.redis).callBuffer(name, ...args), late])
    } catch (/** @type {any} */ err) {
      // After a failover the connection leads to a server that is a replica now. Redis 6 wraps the error of a script.
      if (isReply(err, '') && err.message.includes('READONLY') && this.redis.stream === stream) {
        this.redis.disconnect(true)
      }
      throw storeError(err)
    } finally {
      clearTimeout(timer)
      clearImmediate(read)
    }
  }

  /**
   * Waits for the connection. Nothing is sent before, so nothing is undecided.
   * @param {number} until
   * @returns {Promise<void>}
   */
  ready(until) {
    const { redis } = this
    if (redis.status === 'end') return Promise.reject(new StoreError('unreachable', 'the client was closed'))
    if (redis.status === 'wait') redis.connect().catch(() => {})
    return new Promise((resolve, reject) => {
      const over = (/** @type {unknown} */ why) => {
        clearTimeout(timer)
        redis.off('ready', ready).off('end', ended).off('error', failed)
        if (why) reject(why)
        else resolve()
      }
      const ready = () => over(undefined)
      const unreachable = () =>
        this.lastError && isReply(this.lastError, '')
          ? storeError(this.lastError)
          : new StoreError(
              'unreachable', `no connection${this.lastError ? `: ${codeOf(this.lastError)}` : ''}`, this.lastError
            )
      const ended = () => over(unreachable())
      const failed = (/** @type {any} */ err) => {
        if (err?.code === 'ECONNREFUSED' || isReply(err, '')) over(unreachable())
      }
      const timer = setTimeout(() => over(unreachable()), Math.max(until - performance.now(), 1))
      redis.on('ready', ready).on('end', ended).on('error', failed)
    })
  }
}

/** @type {[string, Fault][]} the codes with which the errors of servers begin */
const REPLIES = [
  ['READONLY', 'read-only'], ['OOM', 'out of space'], ['LOADING', 'loading'], ['BUSY', 'busy'],
  ['MASTERDOWN', 'failover'], ['CLUSTERDOWN', 'failover'], ['TRYAGAIN', 'failover'], ['MOVED', 'failover'],
  ['ASK', 'failover'], ['NOREPLICAS', 'failover'], ['MISCONF', 'read-only'], ['NOAUTH', 'denied'],
  ['WRONGPASS', 'denied'], ['NOPERM', 'denied'], ['ERR AUTH', 'denied'], ['ERR invalid password', 'denied'],
  ['ERR Protocol error: unauthenticated', 'denied'],
  ["ERR The user executing the script can't", 'denied'], ['ERR ACL failure in script', 'denied'],
  ['ERR unknown command', 'of another kind'],
  ['ERR DB index is out of range', 'not set up'], ['ERR SELECT is not allowed in cluster mode', 'not set up'],
]

/**
 * Whether an error is the reply of a server that begins with a code.
 * @param {any} err
 * @param {string} code
 */
function isReply(err, code) {
  return err?.name === 'ReplyError' && err.message.startsWith(code)
}

/** @param {any} err */
function codeOf(err) {
  return err?.code ?? err?.name ?? 'unknown'
}

/**
 * An error of ioredis as a StoreError. A server may quote the arguments of a command, passwords included, so only the
 * code of an unknown reply is passed on.
 * @param {any} err
 * @returns {StoreError}
 */
export function storeError(err) {
  if (err instanceof StoreError) return err
  if (!isReply(err, '')) {
    return new StoreError(
      'unreachable', `the connection broke (${codeOf(err)}); the step may or may not have been taken`, err
    )
  }
  let text = err.message
  if (text.includes('WRONGTYPE') || text.includes('not a record of strikes')) {
    return new StoreError(
      'foreign', 'another program wrote to a key of this queue; `strikes doctor QUEUE` names it', err
    )
  }
  if (text.startsWith('ERR Error running script')) {
    // Redis 6 wraps the error of a script.
    if (text.includes("The user executing the script can't"))
      return new StoreError('denied', 'an ACL forbids a command of the scripts', err)
    text = text.slice(text.indexOf(': -') + 3)
  }
  for (const [code, fault] of REPLIES) {
    if (text.startsWith(code)) return new StoreError(fault, `the server replied ${code}`, err)
  }
  return new StoreError('error', `the server replied ${text.split(' ', 1)[0].slice(0, 40)}`, err)
}
