// A queue with its dead-letter route, and consumers of it.
import amqp from 'amqplib'
import { Consumer } from '../src/consumer.js'
import { dial } from '../src/counter.js'
import { publish } from '../src/publisher.js'
import { amqpURL, eventually, plainRedis, redisURL, unique } from './servers.js'

/** Declares a queue of its own, and ends everything with close. */
export async function fixture(t, { type = 'quorum', url = amqpURL, queue = unique(), exchange = `${queue}.dlx` } = {}) {
  const model = await amqp.connect(amqpURL)
  const channel = await model.createConfirmChannel()
  await channel.assertExchange(exchange, 'fanout', { durable: true })
  await channel.assertQueue(`${queue}.dlq`, {
    durable: true,
    arguments: { 'x-queue-type': 'quorum', 'x-delivery-limit': 1000 }
  })
  await channel.bindQueue(`${queue}.dlq`, exchange, '')
  const limit = type === 'quorum' ? { 'x-delivery-limit': 1000 } : {}
  await channel.assertQueue(queue, {
    durable: true,
    arguments: { 'x-queue-type': type, 'x-dead-letter-exchange': exchange, ...limit }
  })
  const counter = dial(redisURL)
  const redis = plainRedis()
  const consumers = []

  const f = {
    queue,
    model,
    channel,
    counter,
    redis,
    publish: (id, content = Buffer.from(id), options = {}, to = queue) =>
      publish(channel, { routingKey: to, content, options: { messageId: id, ...options } }),

    /** Runs a consumer until stop is called. */
    consume(handler, options = {}) {
      const controller = new AbortController()
      const events = []
      const consumer = new Consumer({
        url, queue, counter, handler, backoff: () => 20, observer: (e) => events.push(e), ...options,
      })
      const running = consumer.run(controller.signal)
      running.catch(() => {})
      const stop = () => { controller.abort(); return running }
      consumers.push(stop)
      return { events, running, stop }
    },

    async depth(name = queue) {
      return (await channel.checkQueue(name)).messageCount
    },

    /** The dead letters, once there are n. */
    async dead(n) {
      await eventually(async () => await f.depth(`${queue}.dlq`) >= n, `${n} dead letters`)
      const out = []
      for (let m; (m = await channel.get(`${queue}.dlq`, { noAck: false }));) out.push(m)
      for (const m of out) channel.nack(m, false, true)
      return out
    },
  }
  t.after(async () => {
    await Promise.all(consumers.map((stop) => stop().catch(() => {})))
    await channel.deleteQueue(queue).catch(() => {})
    await channel.deleteQueue(`${queue}.dlq`).catch(() => {})
    await channel.deleteExchange(exchange).catch(() => {})
    await model.close().catch(() => {})
    counter.close()
    redis.disconnect()
  })
  return f
}
