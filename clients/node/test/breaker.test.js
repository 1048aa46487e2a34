// A dependency that is away, on a real broker and a real Redis.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import amqp from 'amqplib'
import { chance } from '../src/backoff.js'
import { Breaker, checkBreaker } from '../src/breaker.js'
import { DEFAULT_PREFIX, keys, queueKey } from '../src/key.js'
import { parseRecord } from '../src/record.js'
import { notCounted } from '../src/steer.js'
import { Stop } from '../src/wait.js'
import { fixture } from './broker.js'
import { amqpURL, eventually } from './servers.js'

const GOOD = 60
const POISON = 12

const silent = { debug() {}, info() {}, warn() {}, error() {} }

const keyOf = (queue) => keys({ vhost: '/', queue, id: 'm' }, DEFAULT_PREFIX).index.replace(/index$/, 'breaker')

/** The time at which the breaker of the queue opened, and how many permits it gave; 0: none. */
async function breakerOf(f) {
  const text = await f.redis.get(keyOf(f.queue))
  const numbers = (text ?? '').split(' ').map(Number)
  return { open: numbers[2] ?? 0, permits: numbers[5] ?? 0 }
}

for (const [why, end] of /** @type {[string, (b: Breaker) => void][]} */ ([
  ['a message succeeded in this process: it goes on', (b) => b.succeeded({ began: performance.now(), ran: 0 })],
  ['an operator wants every failure counted: this process goes on', (b) => {
    b.state = { ...b.state, now: 1, count: 2 }
    b.stopAlone()
  }],
  ['no message succeeds in other processes either: this process goes on, and its failures count', (b) => {
    b.alone -= 5000 // IDLE
    b.stopAlone()
  }]
])) {
  test(`the end of a stop of one process is a warning: ${why}`, () => {
    const lines = []
    const line = (level) => (text) => lines.push([level, text])
    const logger = { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
    const b = new Breaker({ breaker: 2, patience: 0 }, { queue: 'orders', vhost: '/', counter: {}, logger })
    for (let i = 0; i < 2; i++)
      b.failed({ progress: {}, reply: { code: 'REQUEUE', failures: 1, crashes: 0 }, cause: 'failed', postponed: 0 })
    b.alone -= 3000 // DOUBT_LASTS is 2000
    b.stopAlone()
    assert.equal(b.shut, true)
    end(b)
    assert.equal(b.shut, false)
    assert.deepEqual(lines.slice(1), [['warn', why]])
  })
}

test('permits go around: a process asks up to 0.2 s after the next one is due', async () => {
  const askBreaker = async () => ({ ...b.state, open: 1, now: 1000, next: 3000 })
  const settings = { queue: 'orders', vhost: '/', counter: { askBreaker }, logger: silent }
  const b = new Breaker({ breaker: 2, patience: 0 }, settings)
  const waits = new Set()
  for (let i = 0; i < 20; i++) {
    await b.ask()
    waits.add(b.due - b.heard - 2000)
  }
  assert.ok(waits.size > 10 && Math.min(...waits) > -0.01 && Math.max(...waits) < 200.01, `${[...waits]}`)
})

test('without messages beyond the prefetch, permits go to failed ones at once', async () => {
  const b = new Breaker({ breaker: 2, patience: 0 }, { queue: 'orders', vhost: '/', counter: {}, logger: silent })
  b.attach(() => assert.fail('it fetches'))
  b.fetchNone()
  b.shut = true
  const waiting = b.wait(new Stop(), performance.now() + 60_000, { probes: 0, failures: 1, first: false })
  b.permit()
  assert.equal(b.waiting.length, 0)
  assert.equal(await waiting, 'probe')
})

test('the permit in a lost reply is taken with the next, and a process that hears nothing asks for none', async (t) => {
  t.mock.method(chance, 'draw', () => 0)
  const wanted = []
  const replies = [4, undefined, 4, undefined, undefined, 5] // permits; undefined: lost
  const askBreaker = async (_vhost, _queue, _progress, wants) => {
    wanted.push(wants)
    const permits = replies.shift()
    if (permits === undefined) throw new Error('timeout')
    return { ...b.state, open: 1, permits }
  }
  const settings = { queue: 'orders', vhost: '/', counter: { askBreaker }, logger: silent }
  const b = new Breaker({ breaker: 2, patience: 0 }, settings)
  b.fetchNone()
  await b.ask()
  const waiting = b.wait(new Stop(), performance.now() + 60_000, { probes: 0, failures: 1, first: false })
  while (replies.length > 0) await b.ask()
  assert.deepEqual(wanted, [false, true, false, true, false, false])
  assert.equal(await waiting, 'probe')
})

for (const type of ['classic', 'quorum']) {
  test(`poison fills the prefetch of two consumers, and the dependency is away, ${type}`, async (t) => {
    const f = await fixture(t, { type })
    let back = false
    let published = GOOD
    const done = new Set()
    const handler = ({ properties: { messageId: id } }) => {
      if (id.startsWith('poison') || !back) throw new Error('connection refused')
      done.add(id)
    }
    for (let i = 0; i < POISON; i++) await f.publish(`poison${i}`)
    for (let i = 0; i < GOOD; i++) await f.publish(`good${i}`)
    for (let i = 0; i < 2; i++) f.consume(handler, { breaker: 8, prefetch: 5, concurrency: 2 })
    await eventually(async () => (await breakerOf(f)).permits >= 2, 'two permits')
    assert.equal(done.size, 0) // poison may be dead: the first five messages of a consumer alone open no breaker
    const consumers = keyOf(f.queue).replace(/breaker$/, 'consumers')
    await eventually(async () => {
      const all = await f.redis.zrange(consumers, 0, -1)
      return all.length > 0 && all.every((r) => r.startsWith('2 '))
    }, 'operators see that the process has a breaker')
    back = true
    await eventually(() => done.size >= GOOD, 'all good messages are handled')
    await eventually(async () => {
      await f.publish(`good${published++}`) // of poison alone the breaker would open again
      return await f.depth(`${f.queue}.dlq`) >= POISON
    }, 'poison is dead-lettered')
    await eventually(() => done.size === published, 'the later ones are handled')
    const letters = (await f.dead(POISON)).map((m) => m.properties.messageId).sort()
    assert.deepEqual(letters, Array.from({ length: POISON }, (_, i) => `poison${i}`).sort())
    for (const id of letters) {
      const { state, failures, crashes } = parseRecord(
        await f.redis.getBuffer(keys({ vhost: '/', queue: f.queue, id }, DEFAULT_PREFIX).record)
      )
      assert.deepEqual({ state, failures, crashes }, { state: 'exhausted', failures: 4, crashes: 0 }, id)
    }
  })
}

test('a broker that allows one consumer on a channel is asked once for messages beyond the prefetch', async (t) => {
  const f = await fixture(t)
  const warnings = []
  let back = false
  let sessions = 0
  let more = 0
  // The second consumer of a channel has the tag of the first, which the broker refuses with 530 too.
  const connect = async () => {
    const model = await amqp.connect(amqpURL)
    const create = model.createChannel
    model.createChannel = async () => {
      const channel = await create.call(model)
      const consume = channel.consume
      let tag
      channel.consume = (queue, take, { consumerTag }) => {
        if (tag) more++
        tag ??= consumerTag
        return consume.call(channel, queue, take, { consumerTag: tag })
      }
      return channel
    }
    return model
  }
  for (let i = 0; i < 4; i++) await f.publish(`m${i}`)
  const { events } = f.consume(() => { if (!back) throw new Error('connection refused') }, {
    url: undefined, vhost: '/', connect, breaker: 2, consuming: (yes) => { if (yes) sessions++ },
    logger: { ...silent, warn: (text) => warnings.push(text) }
  })
  await eventually(async () => (await breakerOf(f)).permits >= 3, 'three permits')
  assert.deepEqual([sessions, more], [2, 1])
  assert.equal(warnings.filter((text) => text.includes('consumer_max_per_channel')).length, 1)
  back = true
  await eventually(() => events.filter((e) => e.outcome === 'ack').length === 4, 'all are handled')
})

test('handlers that could not work open the breaker too, and none of their attempts is counted', async (t) => {
  const f = await fixture(t)
  let back = false
  for (let i = 0; i < 4; i++) await f.publish(`m${i}`)
  const { events } = f.consume(() => { if (!back) throw notCounted(new Error('the database is away')) }, { breaker: 2 })
  await eventually(async () => (await breakerOf(f)).permits > 0, 'a permit')
  back = true
  await eventually(() => events.filter((e) => e.outcome === 'ack').length === 4, 'all are handled')
  assert.ok(events.every((e) => e.failures === 0) && events.some((e) => e.outcome === 'not-counted'))
})

test('messages that wait because their attempts are not counted are reported', async (t) => {
  const f = await fixture(t)
  let back = false
  for (let i = 0; i < 2; i++) await f.publish(`m${i}`)
  const { events } = f.consume(() => { if (!back) throw notCounted(new Error('the database is away')) })
  const report = async () => {
    const names = await f.redis.keys(`${queueKey(DEFAULT_PREFIX, '/', f.queue)}waiting:*`)
    return names.length > 0 ? f.redis.get(names[0]) : null
  }
  await eventually(async () => /^2 \d+ .*the database is away$/.test(await report() ?? ''), 'both are reported')
  back = true
  await eventually(() => events.filter((e) => e.outcome === 'ack').length === 2, 'both are handled')
  await eventually(async () => await report() === null, 'the report expires')
})

test('refused settings', () => {
  for (const [breaker, patience] of [[1, 0], [-2, 0], [101, 0], ['8', 0], [2.5, 0], [8, -1], [8, Infinity], [0, 5]]) {
    assert.throws(() => checkBreaker(/** @type {any} */ (breaker), patience), /^FieldError: (breaker|patience) must be/)
  }
})
