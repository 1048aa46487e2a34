import { FRESH } from './breaker.js'
import { Deliveries } from './deliveries.js'
import { Delivery } from './delivery.js'
import { isUnconverted, SettlementError, StuckError, textOf, UncleanStopError, UndecodableError } from './errors.js'
import { newToken } from './token.js'
import { Stop, within } from './wait.js'

const OPEN_TIMEOUT = 10_000 // a broker that recovers may never answer a basic.consume
const CLOSE_TIMEOUT = 5000
// The time to abandon handlers, to send a step twice, and to close the channel.
const SETTLE_TIMEOUT = 2000 + 2 * 1000 + CLOSE_TIMEOUT

// How many acks a plain close of the channel keeps on a quorum queue. Beyond 32, the broker's side of the channel
// buffers them, and up to 467 of 500 were lost (3.10.8, 4.0.5, 4.3.6). A basic.cancel flushes them.
const PENDING_ACKS = 30

const NOT_ALLOWED = 530

/**
 * The settings and functions that a session needs of its Consumer.
 * @typedef {object} SessionOptions
 * @property {import('./settings.js').Settings} settings
 * @property {import('./invoke.js').Handler} handler
 * @property {number} concurrency
 * @property {number} prefetch
 * @property {number} drainTimeout
 * @property {import('./isolation.js').Isolation} isolation
 * @property {import('./late.js').Late} late
 * @property {import('./control.js').ControlReader | undefined} control
 * @property {import('./route.js').Route | undefined} route
 * @property {number} deadLettersFrom
 * @property {(yes: boolean) => void} consuming
 * @property {import('./breaker.js').Breaker} [breaker]
 * @property {boolean} careful an undecodable message may be in the queue
 */

/** How long a careful session lasts before the next one prefetches again. */
export const CARE_FOR = 10_000

/** One channel and the deliveries that came with it. None of them outlives it. */
export class Session {
  /**
   * @param {any} model the connection
   * @param {SessionOptions} options
   */
  constructor(model, options) {
    this.model = model
    this.options = options
    this.queue = JSON.stringify(options.settings.queue)
    this.ended = new Stop() // by anything but the caller's stop
    this.received = 0
    /** @type {Buffer} */
    this.last = Buffer.alloc(0)
    this.began = performance.now()
    this.passed = false
    this.fetched = false // messages beyond the prefetch
    this.fetching = false // the broker is asked to deliver them
    /** @type {Error | undefined} */
    this.undecodable = undefined
    const { settings, handler, isolation, late, concurrency, control, route, deadLettersFrom, breaker } = options
    this.deliveries = new Deliveries(settings, handler, {
      isolation, late, concurrency, control, route, deadLettersFrom, breaker, fail: (err) => this.ended.end(err),
    })
  }

  /**
   * Consumes until stop ends or the session does. It throws the error that ended the session.
   * @param {Stop} stop
   */
  async run(stop) {
    const off = this.listen()
    try {
      const channel = await this.open()
      await this.serve(channel, stop)
    } catch (err) {
      const { reason } = this.ended
      throw reason instanceof UndecodableError && !(err instanceof UncleanStopError) ? reason : err
    } finally {
      off()
    }
  }

  /** Hears of the end of the connection. */
  listen() {
    const { model } = this
    const failed = (/** @type {unknown} */ err) => this.lose(err)
    const closed = () => this.lose(undefined)
    const frameError = (/** @type {Error} */ err) => {
      if (!/^Unknown consumer/.test(err.message)) this.undecodable = err // a delivery after its cancellation is none
    }
    model.on('error', failed)
    model.on('close', closed)
    model.connection?.prependListener?.('frameError', frameError)
    return () => {
      model.off('error', failed)
      model.off('close', closed)
      model.connection?.off?.('frameError', frameError)
    }
  }

  /** @param {unknown} why */
  lose(why) {
    if (this.fetching && /** @type {any} */ (why)?.code === NOT_ALLOWED) this.options.breaker?.fetchNone()
    const reason = why === undefined ? '' : `: ${textOf(why)}`
    if (isUnconverted(why)) {
      this.ended.end(
        new UndecodableError(
          `queue ${this.queue}: the broker closed the connection with 541, ` +
          `as it does for a message that it cannot convert to AMQP 0.9.1; ${this.position()}${reason}`,
          why
        )
      )
    } else if (this.undecodable) {
      this.ended.end(
        new UndecodableError(
          `queue ${this.queue}: a message cannot be decoded; ${this.position()}${reason}; ` +
          'purge it, or let a delivery limit end it',
          why
        )
      )
    }
    else this.ended.end(new Error(`queue ${this.queue}: the connection was lost${reason}`, { cause: why }))
  }

  /** Where in the queue an undecodable message is. */
  position() {
    if (this.received === 0) {
      return this.options.prefetch === 1
        ? 'it is at the head of the queue'
        : `it is among the first ${this.options.prefetch} of the queue`
    }
    return this.last.length > 0
      ? `it came after message ${JSON.stringify(this.last.toString())}`
      : 'it came after a message without an id'
  }

  /** @returns {Promise<any>} */
  async open() {
    const channel = await within(
      /** @type {Promise<any>} */ (this.model.createChannel()), OPEN_TIMEOUT, 'opening a channel'
    )
    channel.on('error', (/** @type {Error} */ err) =>
      this.ended.end(new Error(`queue ${this.queue}: ${err.message}`, { cause: err }))
    )
    channel.on('close', () => this.lose(undefined))
    this.tag = `strikes-${newToken()}`
    await within(channel.prefetch(this.options.prefetch), OPEN_TIMEOUT, 'setting the prefetch')
    await within(
      channel.consume(this.options.settings.queue, (/** @type {any} */ m) => this.take(channel, m), {
        consumerTag: this.tag
      }),
      OPEN_TIMEOUT,
      'beginning to consume'
    )
    return channel
  }

  /** @param {any} channel @param {any} message */
  take(channel, message) {
    if (message === null) {
      this.ended.end(
        new Error(
          `queue ${this.queue}: the broker cancelled the consumer: ` +
          'the queue was deleted or moved, or a delivery was held beyond the consumer timeout'
        )
      )
      return
    }
    if (this.deliveries.stop.done || this.ended.done) return // it returns with the channel
    if (this.options.careful && this.received > 0 && performance.now() - this.began > CARE_FOR) {
      this.passed = true
      this.ended.end(new Error('the undecodable message did not come again: prefetching again'))
      return
    }
    let d
    try {
      d = new Delivery(message, channel, this.options.settings)
    } catch (err) {
      this.ended.end(new UndecodableError(`queue ${this.queue}: ${textOf(err)}; ${this.position()}`, err))
      return
    }
    this.received++
    this.last = d.id
    this.deliveries.deliver(d)
  }

  /**
   * Takes messages beyond the prefetch, with a second consumer on the channel, until the breaker is calm.
   * @param {any} channel
   */
  async takeFresh(channel) {
    const calm = this.options.breaker?.calm
    // A careful session prefetches one message, because an undecodable one returns all others.
    if (!calm || this.options.careful || this.ended.done || this.deliveries.stop.done) return
    this.fetched = this.fetching = true
    const tag = `strikes-${newToken()}`
    try {
      await within(channel.prefetch(FRESH), OPEN_TIMEOUT, 'setting the prefetch')
      await within(
        channel.consume(this.options.settings.queue, (/** @type {any} */ m) => this.take(channel, m), {
          consumerTag: tag
        }),
        OPEN_TIMEOUT,
        'fetching more messages'
      )
      calm.on(() => {
        channel.cancel(tag).catch(() => {})
      })
    } catch (err) {
      this.ended.end(
        new Error(`queue ${this.queue}: fetching messages beyond the prefetch: ${textOf(err)}`, { cause: err })
      )
    } finally {
      this.fetching = false
    }
  }

  /** @param {any} channel @param {Stop} stop */
  async serve(channel, stop) {
    const { deliveries, options } = this
    options.breaker?.attach(() => this.takeFresh(channel))
    options.consuming(true)
    options.settings.logger.info('consuming', {
      queue: options.settings.queue, prefetch: options.prefetch, concurrency: options.concurrency
    })
    await either(stop, this.ended)
    const stopping = !this.ended.done
    options.consuming(false)
    // Unless this is a stop, the broker may have given up this consumer. Then nothing is settled late, not even a
    // handled message that waits for END.
    deliveries.settling = stopping
    deliveries.stop.end()
    if (stopping) await this.drain()
    const lost = /** @type {Error | undefined} */ (this.ended.done ? this.ended.reason : undefined)
    if (lost) {
      deliveries.settling = false
      within(channel.close(), CLOSE_TIMEOUT, 'closing the channel').catch(() => {})
    }
    deliveries.live.end(lost ?? new Error('the time to drain is over'))
    let failed = lost
    try {
      await within(deliveries.done(), SETTLE_TIMEOUT, 'ending the deliveries')
      if (!lost) await this.close(channel)
    } catch (err) {
      failed ??= /** @type {Error} */ (err)
    }
    if (failed && stop.done && !(failed instanceof StuckError)) // the stop came before or after the loss
      throw new UncleanStopError(`queue ${this.queue}: stopping: the last acks may be lost: ${textOf(failed)}`, failed)
    if (failed) throw failed
  }

  /** Waits until all deliveries are done, for the drainTimeout at most. */
  async drain() {
    const over = new Stop()
    const timer = setTimeout(() => over.end(), Math.min(this.options.drainTimeout, 2 ** 31 - 1))
    this.deliveries.done().then(() => over.end())
    await either(over, this.ended)
    clearTimeout(timer)
    if (this.deliveries.open > 0 && !this.ended.done) {
      this.options.settings.logger.warn('handlers are cancelled: they did not end within the drainTimeout', {
        queue: this.options.settings.queue
      })
    }
  }

  /**
   * Ends the channel after a clean stop, and makes sure that the acks have arrived.
   * @param {any} channel
   */
  async close(channel) {
    if (this.options.prefetch > PENDING_ACKS || this.fetched)
      await within(channel.cancel(this.tag), CLOSE_TIMEOUT, 'cancelling the consumer')
    if (this.ended.done) {
      throw this.ended.reason instanceof Error
        ? this.ended.reason
        : new SettlementError(`queue ${this.queue}: the channel was lost`)
    }
    await within(channel.close(), CLOSE_TIMEOUT, 'closing the channel')
  }
}

/**
 * Waits until one of two has ended.
 * @param {Stop} a
 * @param {Stop} b
 * @returns {Promise<void>}
 */
export function either(a, b) {
  return new Promise((resolve) => {
    const over = () => {
      offA?.()
      offB?.()
      resolve()
    }
    /** @type {(() => void) | undefined} */
    let offA
    /** @type {(() => void) | undefined} */
    let offB
    offA = a.on(over)
    offB = b.on(over)
  })
}
