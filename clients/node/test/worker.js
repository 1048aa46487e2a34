// A consumer in a process of its own. It writes a line for each attempt to stdout. It dies on messages whose id
// begins with "kill", and fails on those whose id begins with "bad".
import { Consumer } from '../src/consumer.js'
import { dial } from '../src/counter.js'
import { amqpURL, redisURL } from './servers.js'

const [queue, options = '{}'] = process.argv.slice(2)
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
process.on('disconnect', () => process.exit(1)) // its parent died

const counter = dial(redisURL)
const consumer = new Consumer({
  url: amqpURL, queue, counter, backoff: () => 20, ...JSON.parse(options),
  async handler(message) {
    const id = message.properties.messageId
    // A kill loses a message to the parent that is not sent yet.
    await new Promise((resolve) => process.send({ id, redelivered: message.fields.redelivered }, resolve))
    if (id.startsWith('kill')) {
      await new Promise((resolve) => setTimeout(resolve, 20)) // so that neighbours run
      process.kill(process.pid, 'SIGKILL')
    }
    if (id.startsWith('bad')) throw new Error('bad as always')
    if (id.startsWith('slow')) await new Promise((resolve) => setTimeout(resolve, 30))
  },
})
await consumer.run(stop.signal)
counter.close()
process.disconnect?.()
