import { randomUUID } from 'node:crypto'
import { need } from './settings.js'

/**
 * @typedef {object} Outgoing
 * @property {string} [exchange]
 * @property {string} routingKey
 * @property {Buffer} content
 * @property {import('amqplib').Options.Publish} [options]
 */

/**
 * Publishes one message on a confirm channel, persistent and with a message id, and waits until the broker has it. It
 * rejects if the broker refuses the message, if no queue takes it, or if the channel is closed first: then it may or
 * may not be published, so publish it again with the same id.
 * @param {import('amqplib').ConfirmChannel} channel
 * @param {Outgoing} message
 * @returns {Promise<string>} the message id
 */
export function publish(channel, { exchange = '', routingKey, content, options = {} }) {
  need('content', content, Buffer.isBuffer(content), 'a Buffer')
  const confirms = typeof channel?.waitForConfirms === 'function' // another channel would never call back
  need('channel', channel, confirms, 'a confirm channel, made by createConfirmChannel')
  const messageId = options.messageId || randomUUID()
  const returned = returnsOf(channel)
  return new Promise((resolve, reject) => {
    const over = (/** @type {unknown} */ err) => {
      const homeless = returned.delete(messageId)
      if (err) reject(err)
      else if (homeless) {
        reject(
          new Error(
            `publishing to ${JSON.stringify(routingKey)}: no queue takes the message; ` +
            'check the exchange and its bindings'
          )
        )
      }
      else resolve(messageId)
    }
    try {
      channel.publish(exchange, routingKey, content, { persistent: true, mandatory: true, ...options, messageId }, over)
    } catch (err) {
      over(err)
    }
  })
}

/** @type {WeakMap<object, Set<string>>} ids of the messages that came back, by channel */
const returns = new WeakMap()

/** @param {import('amqplib').ConfirmChannel} channel */
function returnsOf(channel) {
  let ids = returns.get(channel)
  if (!ids) {
    returns.set(channel, ids = new Set())
    const all = ids
    channel.on('return', (/** @type {any} */ m) => all.add(m.properties.messageId)) // it comes before the confirm
  }
  return ids
}
