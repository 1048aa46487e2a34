import { Consumer, dial } from './src/index.js'
const e = process.env
const handler = async (m) => { console.log(m.properties.messageId) }
await new Consumer({
  url: e.AMQP, queue: e.QUEUE, counter: dial(e.REDIS), maxRetries: 1, logger: console, handler
}).run()
