// Compares the throughput of a Consumer with a bare amqplib loop, in interleaved rounds:
//   npm run bench [-- messages rounds]
// The bare loop acks, and nacks a failing message to the dead-letter queue without counting it. The Consumer makes two
// attempts at it.
import { randomBytes } from 'node:crypto'
import amqp from 'amqplib'
import { Consumer } from '../src/consumer.js'
import { dial } from '../src/counter.js'

const [messages = 10000, rounds = 5] = process.argv.slice(2).map(Number)
const url = process.env.AMQP_URL ?? 'amqp://localhost'
const counter = dial(process.env.REDIS_URL ?? 'redis://localhost')
const model = await amqp.connect(url)
const channel = await model.createConfirmChannel()
const PREFETCH = 100

async function fill(failing) {
  const queue = `bench-${randomBytes(6).toString('hex')}`
  await channel.assertQueue(queue, {
    durable: true,
    arguments: {
      'x-queue-type': 'quorum', 'x-delivery-limit': 1000, 'x-dead-letter-exchange': '',
      'x-dead-letter-routing-key': 'bench-dead'
    }
  })
  for (let n = 0; n < messages; n++) {
    const bad = n % 100 < failing
    channel.sendToQueue(queue, Buffer.from('a body of a few bytes'), {
      persistent: true,
      messageId: `${bad ? 'bad' : 'good'}-${queue}-${n}`
    })
  }
  await channel.waitForConfirms()
  return queue
}

const isBad = (m) => m.properties.messageId.startsWith('bad')

async function bare(queue) {
  const own = await amqp.connect(url)
  const ch = await own.createChannel()
  await ch.prefetch(PREFETCH)
  let left = messages
  const began = performance.now()
  await new Promise((resolve) => ch.consume(queue, (m) => {
    if (isBad(m)) ch.nack(m, false, false)
    else ch.ack(m)
    if (--left === 0) resolve()
  }))
  const ms = performance.now() - began
  await ch.close()
  await own.close()
  return messages / ms * 1000
}

async function strikes(queue) {
  let left = messages
  let began
  const stop = new AbortController()
  await new Consumer({
    url,
    queue,
    counter,
    prefetch: PREFETCH,
    concurrency: PREFETCH,
    maxRetries: 1,
    backoff: () => 0,
    consuming: (yes) => {
      if (yes) began = performance.now()
    },
    handler: (m) => {
      if (isBad(m)) throw new Error('bad')
    },
    observer: ({ outcome }) => {
      if ((outcome === 'ack' || outcome === 'dead-letter') && --left === 0) {
        began = (messages / (performance.now() - began)) * 1000
        stop.abort()
      }
    }
  }).run(stop.signal)
  return began
}

const median = (list) => list.sort((a, b) => a - b)[Math.floor(list.length / 2)]

await channel.assertQueue('bench-dead', { durable: true })
for (const failing of [0, 10]) {
  const results = { bare: [], strikes: [] }
  for (let round = 0; round < rounds; round++) {
    const pair = [['strikes', strikes], ['bare', bare]]
    for (const [name, f] of round % 2 ? pair.reverse() : pair) {
      const queue = await fill(failing)
      results[name].push(await f(queue))
      await channel.deleteQueue(queue)
    }
  }
  const ratio = median(results.strikes.map((rate, i) => rate / results.bare[i]))
  console.log(
    `${failing} % failing: ` +
    `strikes ${Math.round(median(results.strikes))}/s, bare ${Math.round(median(results.bare))}/s, ` +
    `ratio ${ratio.toFixed(2)} (median of ${rounds} pairs, ${messages} messages, quorum queue)`
  )
}
await channel.deleteQueue('bench-dead')
await model.close()
counter.close()
