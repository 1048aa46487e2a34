import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { Consumer } from '../src/consumer.js'
import { ControlReader } from '../src/control.js'
import { dial } from '../src/counter.js'
import { StoreError } from '../src/errors.js'
import { DEFAULT_PREFIX, queueKey } from '../src/key.js'
import { reject, retryAfter, retryAtMost } from '../src/steer.js'
import { fixture } from './broker.js'
import { listen } from './proxy.js'
import { amqpURL, eventually, redisURL, unique } from './servers.js'

const idOf = (m) => m.properties.messageId
const lanesOf = (queue) => `${queueKey(DEFAULT_PREFIX, '/', queue)}lanes`

for (const type of ['classic', 'quorum']) {
  test(`a failing message is handled maxRetries+1 times and dead-lettered, ${type}`, async (t) => {
    const f = await fixture(t, { type })
    const runs = new Map()
    const seen = []
    const { events } = f.consume((m, attempt) => {
      runs.set(idOf(m), (runs.get(idOf(m)) ?? 0) + 1)
      if (idOf(m) === 'bad') {
        seen.push([attempt.number, attempt.last])
        throw new TypeError('boom')
      }
    }, { maxRetries: 3 })
    for (const id of ['a', 'bad', 'b', 'c']) await f.publish(id)
    const [dead] = await f.dead(1)
    assert.equal(idOf(dead), 'bad')
    assert.deepEqual(seen, [[1, 4], [2, 4], [3, 4], [4, 4]])
    assert.deepEqual([runs.get('a'), runs.get('b'), runs.get('c')], [1, 1, 1])
    await eventually(() => events.filter((e) => e.outcome === 'ack').length === 3, 'acks')
    assert.deepEqual(
      events.filter((e) => e.outcome === 'retry').map((e) => [e.number, e.cause, e.wait]),
      [1, 2, 3].map((n) => [n, 'failed', 20])
    )
    const last = events.find((e) => e.outcome === 'dead-letter')
    assert.deepEqual([last.number, last.limit, last.cause, String(last.error)], [4, 4, 'failed', 'TypeError: boom'])
  })
}

test('a queue with blocked lanes is refused; a session ends once a lane is blocked', async (t) => {
  const f = await fixture(t)
  const lanes = lanesOf(f.queue)
  const runs = []
  const states = []
  f.consume((m) => { runs.push(idOf(m)) }, { consuming: (yes) => states.push(yes) })
  await eventually(() => states.length === 1, 'a session')
  await f.redis.zadd(lanes, 1, '0'.repeat(32))
  await eventually(() => states.length === 2, 'the end of the session')
  await f.publish('new')
  await assert.rejects(f.consume((m) => { runs.push(idOf(m)) }).running, /1 of its lanes are blocked/)
  assert.deepEqual(runs, [])
  await f.redis.del(lanes)
  await eventually(() => runs.includes('new'), 'the message after the release')
})

test('a session that ends because a lane is blocked lets its handlers finish', async (t) => {
  const f = await fixture(t)
  const runs = []
  const states = []
  const { events } = f.consume(async (m) => {
    runs.push(idOf(m))
    await eventually(() => states.length === 2, 'the end of the session')
  }, { consuming: (yes) => states.push(yes) })
  await f.publish('slow')
  await eventually(() => runs.length === 1, 'the handler')
  await f.redis.zadd(lanesOf(f.queue), 1, '0'.repeat(32))
  await eventually(() => events.length === 1, 'the end of the attempt')
  assert.equal(events[0].outcome, 'ack')
  await f.redis.del(lanesOf(f.queue))
  await f.publish('next')
  await eventually(() => runs.length > 1, 'the message after the release')
  assert.deepEqual(runs, ['slow', 'next'])
})

test('a lane that is released while the session drains refuses nothing, and neither does a stop', async (t) => {
  const f = await fixture(t)
  const started = []
  let finish = () => {}
  const states = []
  const { running, stop } = f.consume((m) => {
    started.push(idOf(m))
    return new Promise((resolve) => { finish = resolve })
  }, { consuming: (yes) => states.push(yes) })
  for (const [id, sessions, during] of [['released', 1, () => {}], ['stopped', 2, stop]]) {
    await f.publish(id)
    await eventually(() => started.length === sessions, 'the handler')
    await f.redis.zadd(lanesOf(f.queue), 1, '0'.repeat(32))
    await eventually(() => states.length === 2 * sessions, 'the end of the session')
    during()
    await f.redis.del(lanesOf(f.queue))
    finish()
  }
  await running
  assert.deepEqual(started, ['released', 'stopped'])
})

test('a store that may not read the blocked lanes is refused before the first session', async (t) => {
  const f = await fixture(t)
  const user = `lanes-${f.queue}`
  await f.redis.call('ACL', 'SETUSER', user, 'on', '>secret', '~*', '&*', '+@all', '-zcard')
  const url = new URL(redisURL)
  Object.assign(url, { username: user, password: 'secret' })
  const counter = dial(url.href)
  try {
    await assert.rejects(f.consume(() => {}, { counter }).running, /reading how many lanes are blocked.*NOPERM/)
  } finally {
    counter.close()
    await f.redis.call('ACL', 'DELUSER', user)
  }
})

test('if the blocked lanes cannot be read any more, the last number stands and one warning tells it', async (t) => {
  const f = await fixture(t)
  const reads = []
  const failing = {
    control: async () => ({ paused: false, by: '', why: '', at: 0, skips: new Set() }),
    blockedLanes: async () => {
      if (reads.push(0) > 1) throw new StoreError('denied', 'NOPERM')
      return 0
    }
  }
  const warnings = []
  const reader = new ControlReader(failing, {
    vhost: '/', queue: f.queue, name: 'h', logger: { info() {}, error() {}, warn: (text) => warnings.push(text) }
  })
  await reader.first
  for (let n = 0; n < 3; n++) await reader.read()
  reader.stopped = true
  reader.readNow()
  await reader.loop
  assert.equal(reader.refusal(), undefined)
  assert.equal(warnings.length, 1)
})

test('a success on the first delivery sends no step', async (t) => {
  const f = await fixture(t)
  const { events } = f.consume(() => {})
  for (let n = 0; n < 20; n++) await f.publish(`m${n}`)
  await eventually(() => events.length === 20, 'acks')
  assert.deepEqual(await f.redis.keys(`strikes:1:{%2F/${f.queue}}:r:*`), [])
})

test('reject, retryAfter and retries in place', async (t) => {
  const f = await fixture(t)
  const runs = []
  const { events } = f.consume((m, { number, token, fence }) => {
    runs.push([idOf(m), number, m.fields.redelivered, token, fence])
    if (idOf(m) === 'no') throw new Error('wrapped', { cause: reject(new Error('not mine')) })
    if (number === 1) throw retryAfter(new Error('later'), 50)
    if (number === 2) return Promise.reject(new Error('again'))
  }, { retry: 'in-place' })
  await f.publish('no')
  await f.publish('m')
  await eventually(() => events.filter((e) => e.outcome === 'ack').length === 1, 'an ack')
  assert.deepEqual(
    runs.map((r) => r.slice(0, 3)),
    [
      ['no', 1, false], ['m', 1, false], ['m', 2, false], ['m', 3, false]
    ]
  )
  assert.equal(new Set(runs.map((r) => r[3])).size, 4, 'each attempt has a token of its own')
  assert.equal(new Set(runs.map((r) => r[4])).size, 1, 'all attempts at a delivery have its fence')
  assert.deepEqual(events.filter((e) => e.outcome === 'retry').map((e) => e.wait), [50, 20])
  assert.equal(events.find((e) => e.outcome === 'dead-letter').cause, 'rejected')
})

test('kinds of failures and ages', async (t) => {
  const f = await fixture(t)
  const runs = { kind: 0, old: 0 }
  const { events } = f.consume((m) => {
    runs[idOf(m)]++
    throw idOf(m) === 'kind' ? retryAfter(retryAtMost(new Error('gone'), 1), 10) : new Error('slow')
  }, { maxRetries: 9, maxAge: 5000, backoff: () => 1000, concurrency: 2 })
  await f.publish('kind')
  await f.publish('old')
  await f.dead(2)
  assert.equal(runs.kind, 2)
  assert.ok(runs.old >= 3 && runs.old < 10, String(runs.old))
  const last = Object.fromEntries(
    events.filter((e) => e.outcome === 'dead-letter').map((e) => [idOf(e.message), [e.cause, e.limit]])
  )
  assert.deepEqual(last, { kind: ['failed', 2], old: ['too-old', 10] })
})

test('a message without an id gets one attempt', async (t) => {
  const f = await fixture(t)
  let runs = 0
  const { events } = f.consume(() => { runs++; throw new Error('boom') })
  f.channel.sendToQueue(f.queue, Buffer.from('x'))
  await f.dead(1)
  assert.equal(runs, 1)
  assert.equal(events.at(-1).cause, 'no-id')
})

test('a deadline is counted, and a handler that does not return is abandoned', async (t) => {
  const f = await fixture(t)
  const { events } = f.consume((m, { signal }) => new Promise((resolve, fail) => {
    if (idOf(m) === 'obeys') signal.addEventListener('abort', () => fail(signal.reason))
    else setTimeout(resolve, 2700)
  }), { handlerTimeout: 200, maxRetries: 0, concurrency: 2 })
  await f.publish('obeys')
  await f.publish('hangs')
  await f.dead(2)
  assert.deepEqual(events.map((e) => e.cause), ['timed-out', 'timed-out'])
  await new Promise((resolve) => setTimeout(resolve, 700))
})

test('handlers that block the event loop hide no reply of the store', async (t) => {
  const f = await fixture(t)
  for (let n = 0; n < 10; n++) await f.publish(`m${n}`)
  let connections = 0
  f.counter.redis.on('connect', () => { connections++ })
  const { events } = f.consume(() => {
    for (const until = performance.now() + 300; performance.now() < until;);
    throw new Error('boom')
  }, { maxRetries: 0, concurrency: 2 })
  await f.dead(10)
  assert.deepEqual(events.map((e) => e.outcome), Array(10).fill('dead-letter'))
  assert.ok(connections <= 1, `${connections} connections`)
})

test('a stop lets handlers end, counts nothing and leaves the rest', async (t) => {
  const f = await fixture(t)
  let running = 0
  let release
  const gate = new Promise((resolve) => { release = resolve })
  const { stop, events } = f.consume(async (m) => {
    running++
    await gate
    if (idOf(m) === 'm1') throw new Error('stopped in the middle')
  }, { concurrency: 2, prefetch: 10 })
  for (let n = 0; n < 5; n++) await f.publish(`m${n}`)
  await eventually(() => running === 2, 'two handlers')
  const stopped = stop() // a message that has not arrived yet stays in the queue, without an event
  setTimeout(release, 100)
  await stopped
  const outcomes = events.map((e) => e.outcome)
  assert.equal(outcomes.filter((o) => o === 'ack').length, 1)
  assert.ok(outcomes.every((o) => o === 'ack' || o === 'leave'), outcomes.join())
  assert.equal(running, 2)
  await eventually(async () => await f.depth() === 4, '4 messages returned')
  assert.deepEqual(await f.redis.keys(`strikes:1:{%2F/${f.queue}}:r:*`), [])
})

test('a stop while the broker does not answer', { timeout: 300_000 }, async (t) => {
  const proxy = await listen(amqpURL)
  t.after(() => proxy.close())
  proxy.freeze()
  const f = await fixture(t, { url: proxy.url })
  const { stop } = f.consume(() => {})
  await new Promise((resolve) => setTimeout(resolve, 200))
  await stop()
})

test('a broker that is away is logged at once, and not with each dial', async (t) => {
  const f = await fixture(t)
  const told = []
  let dials = 0
  const connect = async () => {
    dials++
    throw new Error('refused')
  }
  const logger = { debug() {}, info() {}, error() {}, warn: (text) => told.push(text) }
  const { stop } = f.consume(() => {}, { url: undefined, connect, vhost: '/', logger })
  await eventually(() => dials > 3, 'dials')
  await stop()
  assert.deepEqual(told, ['no connection to the broker; dialling goes on'])
})

test('a virtual host that does not exist is named in the log', async (t) => {
  const f = await fixture(t)
  const told = []
  const logger = { debug() {}, info() {}, error() {}, warn: (_, { error }) => told.push(error.message) }
  const { stop } = f.consume(() => {}, { url: new URL('/no-such-host', amqpURL).href, logger })
  await eventually(() => told.length > 0, 'a warning')
  await stop()
  assert.match(told[0], /correct the virtual host in the URL/)
})

test('partitions are refused', async (t) => {
  const f = await fixture(t)
  const name = `${f.queue}.parts`
  execFileSync(process.env.STRIKES ?? 'strikes', ['declare', name, '--partitions', '3', '--amqp-url', amqpURL])
  try {
    for (const queue of [name, `${name}.2`]) {
      await assert.rejects(
        f.consume(() => {}, { queue }).running,
        /parts" has 3 partitions, .* strikes consume .*push mode/
      )
    }
    // Its name is like that of a partition.
    await f.channel.assertQueue(`${name}.7`, { durable: true, arguments: { 'x-queue-type': 'classic' } })
    await f.consume(() => {}, { queue: `${name}.7`, allowDrop: true }).stop()
  } finally {
    for (const n of [0, 1, 2, 7, 'dlq']) await f.channel.deleteQueue(`${name}.${n}`)
    for (const exchange of [name, `${name}.hash3`, `${name}.dlx`]) await f.channel.deleteExchange(exchange)
  }
})

/** Consumes a message of the queue, and returns why not all is known about how it was declared, for each warning. */
async function unreadOf(f, queue = f.queue) {
  const unread = []
  const logger = { debug() {}, info() {}, error() {}, warn: (_text, { why }) => { if (why) unread.push(why) } }
  const { events, running, stop } = f.consume(() => {}, { queue, logger })
  await f.publish('m', undefined, {}, queue)
  await Promise.race([running, eventually(() => events.length > 0, 'an ack')]) // a refusal ends running
  await stop()
  return unread
}

const LONG = 'production.billing.invoices.generate-monthly-statement'

for (const [what, queue, exchange, says] of [
  ['a long name', unique(LONG), undefined, undefined],
  ['a very long name', unique('x'.repeat(200)), undefined, undefined],
  ['a long name, and another dead-letter exchange', unique(LONG), unique(`${LONG}.rejected`), /x-dead.* cut at 255 /],
  ['a name that is not ASCII', unique('請求書'), undefined, undefined],
  ['a long name that is not ASCII', unique('請求書'.repeat(6)), undefined, /not ASCII/],
  // RabbitMQ 4 closes the connection instead of an answer.
  ['a dead-letter exchange that is not ASCII', unique(), unique('請求書'.repeat(15)), /541|cut at 255 bytes/],
]) {
  test(`a queue is consumed whether AMQP reports its declaration or not: ${what}`, async (t) => {
    const unread = await unreadOf(await fixture(t, { queue, exchange }))
    assert.equal(unread.length, says ? 1 : 0, String(unread))
    if (says) assert.match(unread[0], says)
  })
}

test('a connection limit passes, and refused credentials do not', async () => {
  for (const [reason, counted] of [
    ["access to vhost '/' refused for user 'guest': connection limit (1) is reached", 0],
    ["access to vhost '/' refused for user 'guest'", 1]
  ]) {
    const connect = async () => { throw new Error(`530 (NOT-ALLOWED) with message "NOT_ALLOWED - ${reason}"`) }
    const r = { denials: 0, stop: { on: () => () => {} } }
    await assert.rejects(Consumer.prototype.dial.call({ connect, settings: { queue: 'q' } }, r), /NOT_ALLOWED/)
    assert.equal(r.denials, counted)
  }
})

test('a queue is consumed if the broker denies its redeclaration', async (t) => {
  const f = await fixture(t)
  const args = { 'x-dead-letter-exchange': `${f.queue}.dlx` }
  const { queue } = await f.channel.assertQueue('', { durable: true, arguments: args }) // amq.gen-…
  try {
    const unread = await unreadOf(f, queue)
    assert.deepEqual(unread, ['AMQP does not answer for names that begin with amq.'])
  } finally {
    await f.channel.deleteQueue(queue)
  }
})

test('a refused queue, and refused settings', async (t) => {
  const f = await fixture(t)
  await assert.rejects(f.consume(() => {}, { queue: 'no-such-queue' }).running, /does not exist in virtual host "\/"/)
  await f.channel.assertQueue(`${f.queue}.bare`, { durable: true, arguments: { 'x-queue-type': 'classic' } })
  await assert.rejects(f.consume(() => {}, { queue: `${f.queue}.bare` }).running, /no x-dead-letter-exchange/)
  await f.consume(() => {}, { queue: `${f.queue}.bare`, allowDrop: true }).stop()
  await f.channel.deleteQueue(`${f.queue}.bare`)
  await f.channel.deleteExchange(`${f.queue}.dlx`)
  await assert.rejects(f.consume(() => {}).running, /dead-letter exchange .* does not exist/)
  for (const handler of [function* () {}, async function* () {}, undefined])
    assert.throws(() => f.consume(handler), /^FieldError: handler must be a function .*, not a generator function/)
  assert.throws(() => f.consume(() => {}, { maxRetries: -1 }), /maxRetries must be 0 to 1000, got -1/)
  assert.throws(() => f.consume(() => {}, { handlerTimeout: 3e6 }), /half the consumerTimeout/)
  const url = 'http://u:hush@x'
  assert.throws(() => f.consume(() => {}, { url }), /url must be a text that begins with .*, got "another text"$/)
  await assert.rejects(
    f.consume(() => {}, { url: 'amqp://nobody:wrong@127.0.0.1:' + new URL(process.env.AMQP_URL).port }).running,
    /refuses the connection/
  )
})
