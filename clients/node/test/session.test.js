// The end of a session, on a fake connection.
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { Consumer } from '../src/consumer.js'
import { Session } from '../src/session.js'
import { Isolation } from '../src/isolation.js'
import { Late } from '../src/late.js'
import { Stop } from '../src/wait.js'

const silent = { info() {}, warn() {}, error() {} }

/** A connection with one channel. */
function fakeModel() {
  const channel = Object.assign(new EventEmitter(), {
    calls: [], prefetch: async () => { channel.calls.push('prefetch') }, ack() { channel.calls.push('ack') },
    consume: async (_queue, take) => {
      channel.calls.push('consume')
      channel.take = take
    },
    close: async () => {}, cancel: async () => {}
  })
  return Object.assign(new EventEmitter(), { channel, createChannel: async () => channel, close: async () => {} })
}

const message = (n) =>
  ({ fields: { deliveryTag: n }, properties: { messageId: `m${n}` }, content: Buffer.alloc(0) })

const consumerOn = (model, options) =>
  new Consumer({
    connect: async () => model, queue: 'orders', counter: { start() {}, begun() {}, fail() {}, end() {} },
    logger: silent, check: false, ...options
  })

for (const [what, event, why, says, frame] of [
  ['lost', 'close', undefined, /UncleanStopError: .*the last acks may be lost.*the connection was lost/],
  ['a broken frame', 'close', undefined, /a message cannot be decoded.*purge it/, 'Invalid frame'],
  ['a delivery after its cancellation', 'close', undefined, /the connection was lost/, 'Unknown consumer: t'],
  ['undecodable', 'error', { code: 541 }, /UncleanStopError: .*the last acks may be lost.*cannot convert/]
]) {
  test(`a stop before a session has ended is unclean: ${what}`, async () => {
    const model = Object.assign(fakeModel(), { connection: new EventEmitter() })
    const controller = new AbortController()
    const deaf = () => { // it is abandoned after 2 s
      if (frame) model.connection.emit('frameError', new Error(frame))
      setImmediate(() => model.emit(event, why))
      return new Promise(() => {})
    }
    const running = consumerOn(model, {
      handler: deaf,
      consuming: (yes) => {
        if (!yes) return setTimeout(() => controller.abort(), 100)
        setTimeout(() => model.channel.take(message(1)), 10)
      }
    }).run(controller.signal)
    await assert.rejects(running, says)
  })
}

test('a logger that throws, or returns a promise that is rejected, ends nothing', async () => {
  for (const line of [() => { throw new Error('disk full') }, async () => { throw new Error('disk full') }]) {
    const model = fakeModel()
    const controller = new AbortController()
    const logger = { debug: line, info: line, warn: line, error: line }
    await consumerOn(model, {
      logger, handler() { controller.abort() }, observer() { throw new Error('it is logged') },
      consuming(yes) { if (yes) setTimeout(() => model.channel.take(message(1)), 10) }
    }).run(controller.signal)
    assert.deepEqual(model.channel.calls.filter((call) => call === 'ack'), ['ack'])
  }
})

test('a connection that recovers by itself is refused, once, and closed', async () => {
  let closed = 0
  let opened = 0
  const connect = async () => Object.assign(fakeModel(), { reconnect() {}, close: async () => { closed++ } }, opened++)
  const controller = new AbortController()
  setTimeout(() => controller.abort(), 5000).unref()
  await assert.rejects(consumerOn(undefined, { connect, handler() {} }).run(controller.signal), { field: 'connect' })
  assert.deepEqual([opened, closed], [1, 1])
})

test('the error of a connection that opened after a stop does not end the process', async () => {
  const model = fakeModel()
  const controller = new AbortController()
  let opens
  const connect = () => new Promise((resolve) => { opens = () => resolve(model) })
  const running = consumerOn(model, { connect, handler() {} }).run(controller.signal)
  await new Promise((resolve) => { setTimeout(resolve, 10) })
  controller.abort()
  await running
  opens()
  await new Promise((resolve) => { setTimeout(resolve, 10) })
  model.emit('error', new Error('read ECONNRESET')) // it throws without a listener
})

test('a stop comes between handlers that never wait', async () => {
  const model = fakeModel()
  const controller = new AbortController()
  let runs = 0
  await consumerOn(model, {
    handler: () => {
      if (++runs === 2) setTimeout(() => controller.abort(), 1)
      for (const until = performance.now() + 60; performance.now() < until;);
    },
    consuming: (yes) => {
      if (!yes) return
      setImmediate(() => {
        for (let n = 1; n <= 20; n++) model.channel.take(message(n))
      })
    }
  }).run(controller.signal)
  assert.ok(runs <= 4, `${runs} handlers ran`)
})

test('a permit during a stop fetches no messages', async () => {
  const model = fakeModel()
  const { settings, own } = consumerOn(model, { handler() {} })
  const breaker = { calm: new Stop() }
  const session = new Session(model, { settings, ...own, isolation: new Isolation(), late: new Late(), breaker })
  await session.takeFresh(model.channel)
  assert.deepEqual(model.channel.calls, ['prefetch', 'consume'])
  session.deliveries.stop.end()
  await session.takeFresh(model.channel)
  assert.deepEqual(model.channel.calls, ['prefetch', 'consume'])
})

test('run ends once the store knows the last success', async () => {
  const asked = []
  const reply = {
    permitted: false, now: 0, success: 0, doubt: 0, open: 0, next: 0, count: 0, failed: 0, reason: '', text: ''
  }
  for (const away of [false, true]) {
    asked.length = 0
    const consumer = consumerOn(fakeModel(), { handler() {}, breaker: 8 })
    consumer.settings.counter.askBreaker = async (_vhost, _queue, { began }) => {
      await new Promise((resolve) => { setTimeout(resolve, 20) })
      if (away) throw new Error('away')
      asked.push(began)
      return reply
    }
    consumer.sessions = async ({ breaker }) => breaker.succeeded({ began: 7, ran: 1 })
    await consumer.run()
    assert.deepEqual(asked, away ? [] : [undefined, 7])
  }
})
