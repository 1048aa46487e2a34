import { Deliveries } from './deliveries.js'
import { Delivery } from './delivery.js'
import { needHandler } from './invoke.js'
import { ofProcess } from './isolation.js'
import { ownerless } from './late.js'
import { settingsOf } from './settings.js'

/**
 * Counts and settles one delivery at a time, for programs with their own loop over the deliveries of a channel.
 * Most programs want Consumer.
 */
export class Settler {
  /** @param {import('./settings.js').SettlerOptions} options */
  constructor(options) {
    this.settings = settingsOf(options)
  }

  /**
   * Makes attempts at a message, counts the failed ones, and settles it. Call it once for each message of a channel
   * that consumes with acknowledgements, while that channel is open. Call keepRaw with the connection before.
   *
   * When the signal is aborted, the handler's signal is aborted too, nothing is counted, and the outcome is 'leave'.
   * A delivery that is left comes back when its channel is closed, so close it.
   * @param {import('amqplib').Channel} channel that delivered the message
   * @param {import('amqplib').ConsumeMessage} message
   * @param {import('./invoke.js').Handler} handler
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<{ outcome: import('./settings.js').Outcome, error: Error | undefined }>} the error is why the
   *   delivery was left, if not for the signal: the store was out of reach for too long, or the ack or nack could not
   *   be sent
   */
  async handle(channel, message, handler, { signal } = {}) {
    needHandler(handler)
    const deliveries = new Deliveries(this.settings, handler, { isolation: ofProcess(), late: ownerless })
    const off = deliveries.live.follow(signal)
    try {
      const { outcome, error } = await deliveries.deliver(new Delivery(message, channel, this.settings))
      return { outcome, error }
    } finally {
      off()
    }
  }
}
