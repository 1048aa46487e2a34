import amqp from 'amqplib'
import { jitter } from './backoff.js'
import { Breaker, checkBreaker } from './breaker.js'
import { checkQueue, checkRoute } from './check.js'
import { holdControl, releaseControl } from './control.js'
import {
  FieldError, RefusedError, StoreError, StuckError, textOf, UncleanStopError, UndecodableError, UnreadableError
} from './errors.js'
import { needHandler } from './invoke.js'
import { ofProcess } from './isolation.js'
import { Late } from './late.js'
import { keepRaw } from './properties.js'
import { Route } from './route.js'
import { either, Session } from './session.js'
import { need, settingsOf, unawaited } from './settings.js'
import { pause, Stop, within } from './wait.js'

const CONNECT_TIMEOUT = 10_000
const CLOSE_TIMEOUT = 5000
const STEADY = 10_000 // ms that a session has to last before the next one is tried without delay
const TELL_AGAIN = 60_000 // ms between two logs that there is still no connection

// How long dead letters wait after a reconnect, and after the last attempt to consume that failed. A broker that has
// just started drops the messages that a classic queue dead-letters to a quorum queue, until that queue has a leader.
const ELECTING = 3000
const STARTING = 10_000

/**
 * @typedef {object} OwnOptions
 * @property {string} [url] of the broker, amqp:// or amqps://; its virtual host is that of the queue
 * @property {object} [socketOptions] of amqplib's connect, such as ca, cert and key
 * @property {() => Promise<any>} [connect] opens a connection of amqplib, instead of url;
 *   name its virtual host in vhost. It must not recover by itself
 * @property {import('./invoke.js').Handler} handler
 * @property {number} [concurrency] handlers that run at the same time; 1 if absent
 * @property {number} [prefetch] deliveries that the broker may have given out unsettled;
 *   twice the concurrency and 10 at least if absent
 * @property {number} [drainTimeout] ms that handlers may go on after the signal is aborted; 25 s if absent
 * @property {((connection: any) => Promise<void>) | false} [check] throws if the queue must not be consumed;
 *   false: no check. If absent, the queue and its dead-letter exchange are checked over AMQP
 * @property {boolean} [allowDrop] accepts a queue without a dead-letter route:
 *   the broker drops messages that fail too often
 * @property {number} [breaker] failed messages without a success after which failures do not count;
 *   0 or absent: no breaker
 * @property {number} [patience] ms after its first failure for which a message's last attempt does not count unless
 *   another message succeeds; 0 if absent
 * @property {(yes: boolean) => void} [consuming] gets true while the broker sends messages, else false;
 *   for a readiness probe
 */

/** @typedef {import('./settings.js').SettlerOptions & OwnOptions} ConsumerOptions */

const OWN_OPTIONS = [
  'url', 'socketOptions', 'connect', 'handler', 'concurrency', 'prefetch', 'drainTimeout', 'check',
  'allowDrop', 'consuming', 'breaker', 'patience',
]

/** Hands the messages of one queue to a handler. */
export class Consumer {
  /** @param {ConsumerOptions} options */
  constructor(options) {
    this.connect = connector(options)
    const vhost = options.vhost ?? (options.url ? vhostOf(options.url) : undefined)
    this.settings = settingsOf({ ...options, vhost }, OWN_OPTIONS)
    const concurrency = options.concurrency ?? 1
    /**
     * @type {Required<Pick<OwnOptions, 'handler' | 'concurrency' | 'prefetch' | 'drainTimeout' | 'allowDrop' |
     *   'consuming' | 'breaker' | 'patience'>> & Pick<OwnOptions, 'check'>}
     */
    this.own = {
      handler: options.handler, concurrency, check: options.check, allowDrop: options.allowDrop ?? false,
      prefetch: options.prefetch ?? Math.min(Math.max(2 * concurrency, 10), 65535),
      drainTimeout: options.drainTimeout ?? 25_000, consuming: options.consuming ?? (() => {}),
      breaker: options.breaker ?? 0, patience: options.patience ?? 0,
    }
    checkBreaker(this.own.breaker, this.own.patience)
    const { handler, prefetch, drainTimeout, check, consuming } = this.own
    needHandler(handler)
    need(
      'concurrency', concurrency, Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= 65535,
      '1 to 65535'
    )
    need('prefetch', prefetch, Number.isInteger(prefetch) && prefetch >= 1 && prefetch <= 65535, '1 to 65535')
    need('drainTimeout', drainTimeout, typeof drainTimeout === 'number' && drainTimeout >= 0, 'ms, 0 at least')
    need(
      'check', check, check === undefined || check === false || typeof check === 'function',
      'a function of a connection, or false'
    )
    need('consuming', consuming, typeof consuming === 'function', 'a function')
  }

  /**
   * Keeps one session on the broker until the signal is aborted: it connects, consumes, and connects again after a
   * lost session. It resolves once the signal is aborted and everything is settled. It throws an UncleanStopError if
   * that is not certain, and a StuckError. Until a first session has consumed, it throws a RefusedError if the queue,
   * the credentials or the store is refused, and a FieldError if connect returns a connection that recovers.
   * @param {AbortSignal} [signal]
   * @returns {Promise<void>}
   */
  async run(signal) {
    const stop = new Stop()
    const off = stop.follow(signal)
    const late = new Late()
    const control = holdControl(this.settings.counter, { ...this.settings, breaker: this.own.breaker })
    const breaker = this.own.breaker > 0 ? new Breaker(this.own, this.settings) : undefined
    const reading = breaker?.run()
    try {
      await this.sessions({
        breaker, stop, late, control, isolation: ofProcess(), consumed: false, careful: false, first: true, denials: 0,
        serving: false, connected: false, failed: -STARTING
      })
    } finally {
      off()
      breaker?.close()
      await Promise.all([reading, late.close(), releaseControl(control)])
    }
  }

  /**
   * @typedef {object} Running
   * @property {Stop} stop
   * @property {Late} late
   * @property {import('./control.js').ControlReader | undefined} control
   * @property {import('./isolation.js').Isolation} isolation
   * @property {Breaker} [breaker]
   * @property {boolean} consumed a session has consumed
   * @property {boolean} careful an undecodable message may be in the queue
   * @property {boolean} first the first connection is not over
   * @property {boolean} serving a session of this connection has consumed
   * @property {boolean} connected a connection could be made
   * @property {number} failed when an attempt to consume failed last
   * @property {number} denials of credentials in a row
   * @property {string} [unread] why the broker is not asked how the queue was declared
   */

  /** @param {Running} r */
  async sessions(r) {
    let told = -Infinity // when it was last logged that no connection could be made
    for (let tries = 0; !r.stop.done; tries++) {
      const began = performance.now()
      /** @type {unknown} */
      let failed
      r.serving = r.connected = false
      try {
        await this.onConnection(r)
      } catch (err) {
        failed = err
      }
      r.first = false
      if (!r.serving) r.failed = performance.now()
      if (failed instanceof StuckError || r.stop.done && failed instanceof UncleanStopError) throw failed
      if (r.stop.done) return
      if (!r.consumed && (failed instanceof RefusedError || failed instanceof FieldError)) throw failed
      if (performance.now() - began > STEADY) tries = 0
      const wait = redialDelay(tries, failed)
      const { logger, queue } = this.settings
      if (r.connected) {
        told = -Infinity
        const level = failed instanceof UndecodableError ? 'error' : 'warn'
        logger[level]('session ended; another follows', { queue, in: wait, error: failed })
      } else if (performance.now() - told > TELL_AGAIN) {
        told = performance.now()
        logger.warn('no connection to the broker; dialling goes on', { queue, error: failed })
      }
      await pause(wait, r.stop)
    }
  }

  /** @param {Running} r */
  async onConnection(r) {
    const model = await this.dial(r)
    r.connected = true
    const connected = performance.now()
    try {
      if (model.reconnect || /Recover/.test(model.constructor?.name)) {
        throw new FieldError(
          'connect', 'a connection that recovers by itself',
          'one that does not, because a late ack would settle another message'
        )
      }
      while (!r.stop.done) {
        const facts = await this.check(model, r)
        if (!await awaitResume(r, model)) await this.session(r, model, facts, connected)
      }
    } finally {
      model.on?.('error', () => {})
      await within(model.close(), CLOSE_TIMEOUT, 'closing the connection').catch(() => {
        model.connection?.stream?.destroy?.()
      })
    }
  }

  /** @param {Running} r */
  async dial(r) {
    let model
    /** @type {(() => void) | undefined} */
    let off
    const connecting = (async () => this.connect())()
    try {
      const stopped = new Promise((_, reject) => { off = r.stop.on(() => reject(new Error('stopped'))) })
      model = await within(Promise.race([connecting, stopped]), CONNECT_TIMEOUT, 'connecting')
    } catch (err) {
      connecting.then((late) => {
        late.on?.('error', () => {}) // without a listener it would end the process
        return late.close()
      }).catch(() => {})
      const text = textOf(err)
      // A connection limit passes: the broker counts a lost connection until it misses its heartbeats.
      const crowded = text.includes('connection limit (')
      const denied = !crowded && /\b403\b|ACCESS.REFUSED|\b530\b|NOT_ALLOWED/.test(text)
      r.denials = denied ? r.denials + 1 : 0
      if (r.denials >= 2) {
        throw new RefusedError(
          `queue ${JSON.stringify(this.settings.queue)}: the broker refuses the connection: ${text}`,
          err
        )
      }
      if (!text.includes('Expected ConnectionOpenOk; got <ConnectionClose')) throw err
      // amqplib does not say why the broker closed it.
      throw new Error(
        `the broker closed the connection when it was asked for the virtual host (${text}): ` +
          'correct the virtual host in the URL, or give the user access with rabbitmqctl set_permissions',
        { cause: err }
      )
    } finally {
      off?.()
    }
    r.denials = 0
    model.on('error', () => {}) // 'close' follows
    if (!keepRaw(model)) {
      this.settings.logger.warn(
        'this version of amqplib does not show the bytes of message ids: ' +
        'a message whose id is not UTF-8 counts as one without an id',
        {}
      )
    }
    return model
  }

  /** @param {any} model @param {Pick<Running, 'control' | 'consumed' | 'unread'>} r */
  async check(model, r) {
    const { control, consumed, unread } = r
    const { check, allowDrop } = this.own
    const { queue, vhost, maxRetries } = this.settings
    await this.checkStore()
    await control?.first
    await control?.readLanes() // the last read may be a second old
    const refusal = control?.refusal()
    if (refusal) throw refusal
    const unknown = control?.lanesError
    if (!consumed && unknown instanceof StoreError && neverServes(unknown)) {
      throw new RefusedError(
        `queue ${JSON.stringify(queue)}: reading how many lanes are blocked: ${unknown.message}`,
        unknown
      )
    }
    if (typeof check === 'function') {
      try {
        await check(model)
      } catch (err) {
        throw new RefusedError(`queue ${JSON.stringify(queue)} is refused: ${textOf(err)}`, err)
      }
    }
    if (check !== undefined) return undefined
    try {
      const facts = await checkQueue(model, { queue, vhost, maxRetries, allowDrop, unread })
      if (facts.unread !== undefined) {
        this.settings.logger.warn('not all is known about how the queue was declared: run strikes doctor', {
          queue, why: facts.unread
        })
      }
      return facts
    } catch (err) {
      if (err instanceof UnreadableError) r.unread = err.message
      throw err
    }
  }

  /**
   * Refuses a store that waiting does not repair.
   * One that is away is no reason to refuse: first deliveries do not need it.
   */
  async checkStore() {
    const counter = /** @type {any} */ (this.settings.counter)
    if (typeof counter.check !== 'function') return
    try {
      await counter.check()
    } catch (err) {
      if (err instanceof StoreError && neverServes(err))
        throw new RefusedError(`queue ${JSON.stringify(this.settings.queue)}: ${err.message}`, err)
      this.settings.logger.warn(
        'the store is out of reach: first deliveries are handled; messages that fail or are redelivered wait unacked ' +
          'until it replies',
        { queue: this.settings.queue, error: err }
      )
    }
  }

  /**
   * @param {Running} r
   * @param {any} model
   * @param {import('./check.js').QueueFacts | undefined} facts
   * @param {number} connected
   */
  async session(r, model, facts, connected) {
    const { settings, own } = this
    const stop = new Stop()
    const off = r.stop.on(() => stop.end())
    const offControl = r.control?.on(() => {
      if (r.control?.reply.paused || r.control?.refusal()) stop.end()
    })
    if (r.control) r.control.sessions++
    const route =
      facts && !own.allowDrop
        ? new Route(() => checkRoute(model, settings.queue, facts), settings.logger, settings.queue)
        : undefined
    const session = new Session(model, {
      settings, ...own, breaker: r.breaker, isolation: r.isolation, late: r.late, control: r.control, route,
      careful: r.careful, prefetch: r.careful ? 1 : own.prefetch,
      deadLettersFrom: r.first ? 0 : Math.max(connected + ELECTING, r.failed + STARTING),
      consuming: (yes) => {
        r.consumed ||= yes
        r.serving ||= yes
        this.guard(() => unawaited(own.consuming, settings)(yes))
      },
    })
    try {
      await session.run(stop)
    } catch (err) {
      const why = err instanceof UncleanStopError ? err.cause : err
      r.careful = why instanceof UndecodableError || r.careful && !session.passed
      if (why instanceof UndecodableError) await this.report(session, why)
      throw err
    } finally {
      off()
      offControl?.()
      r.control?.sessionEnded()
    }
  }

  /** @param {Session} session @param {UndecodableError} err */
  async report(session, err) {
    // The next session prefetches one message, and reports this one if it meets it again.
    if (err.unconverted && session.options.prefetch > 1) return
    const { vhost, queue, observer, logger } = this.settings
    this.guard(() => observer({ outcome: 'undecodable', vhost, queue, error: err }))
    const counter = /** @type {any} */ (this.settings.counter)
    if (typeof counter.noteUndecodable !== 'function') return
    await counter
      .noteUndecodable(vhost, queue, textOf(err))
      .catch((/** @type {unknown} */ error) =>
        logger.warn('the store did not note the undecodable message', { queue, error })
      )
  }

  /** @param {() => void} f of the user's */
  guard(f) {
    try {
      f()
    } catch (error) {
      this.settings.logger.error('a callback threw', { queue: this.settings.queue, error })
    }
  }
}

/**
 * Waits while the queue is paused. It reports whether it was, because the topology may have changed since the check.
 * @param {Running} r
 * @param {any} model
 */
async function awaitResume({ stop, control }, model) {
  if (!control) return false
  await control.first
  if (!control.reply.paused) return false
  control.logger.warn('paused', { queue: control.queue, by: control.reply.by, why: control.reply.why })
  const over = new Stop()
  const lost = new Stop()
  const off = control.on(() => { if (!control.reply.paused) over.end() })
  const offStop = stop.on(() => over.end())
  const closed = () => lost.end()
  model.on('close', closed)
  await either(over, lost)
  model.off('close', closed)
  off()
  offStop()
  if (lost.done)
    throw new Error(`queue ${JSON.stringify(control.queue)}: the connection was lost while the queue was paused`)
  if (!control.reply.paused) control.logger.warn('resumed', { queue: control.queue })
  return true
}

/**
 * Whether no waiting will make this store count.
 * @param {StoreError} err
 */
function neverServes(err) {
  return ['denied', 'of another kind', 'not set up'].includes(err.fault)
}

/** @param {ConsumerOptions} options @returns {() => Promise<any>} */
function connector({ url, connect, socketOptions }) {
  if (connect) {
    need('connect', connect, typeof connect === 'function', 'a function that opens a connection')
    return connect
  }
  need(
    'url',
    typeof url === 'string' ? 'another text' : url, // which may hold a password
    typeof url === 'string' && /^amqps?:\/\//.test(url),
    'a text that begins with amqp:// or amqps://'
  )
  const full = withHeartbeat(/** @type {string} */ (url))
  return () =>
    amqp.connect(full, {
      timeout: CONNECT_TIMEOUT, noDelay: true, clientProperties: { connection_name: 'strikes' }, ...socketOptions
    })
}

/**
 * A dead connection is noticed by its heartbeat. The broker's own suggestion is a minute.
 * @param {string} url
 */
function withHeartbeat(url) {
  if (/[?&]heartbeat=/.test(url)) return url
  return url + (url.includes('?') ? '&' : '?') + 'heartbeat=10'
}

/** @param {string} url */
function vhostOf(url) {
  const path = new URL(url).pathname.slice(1)
  return path === '' ? '/' : decodeURIComponent(path)
}

/** @param {number} tries @param {any} err */
function redialDelay(tries, err) {
  const delay = jitter(Math.min(100 * 1.5 ** Math.min(tries, 20), 2000))
  return err?.code === 'ECONNREFUSED' ? Math.min(delay, jitter(500)) : delay
}
