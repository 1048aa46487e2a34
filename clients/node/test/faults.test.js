import assert from 'node:assert/strict'
import { fork, spawn } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import amqp from 'amqplib'
import { dial } from '../src/counter.js'
import { nameFor } from '../src/generation.js'
import { keys, member } from '../src/key.js'
import { publish } from '../src/publisher.js'
import { parseRecord } from '../src/record.js'
import { Settler } from '../src/settler.js'
import { fixture } from './broker.js'
import { listen } from './proxy.js'
import { amqpURL, eventually, redisURL } from './servers.js'

const minutes = { timeout: 300_000 }

const idOf = (m) => m.properties.messageId

/** Worker processes that are begun again after they die, until stop. It notes every attempt. */
function workers(t, queue, n, options = {}) {
  const path = fileURLToPath(new URL('worker.js', import.meta.url))
  const w = { attempts: [], deaths: 0, stopping: false, children: new Set() }
  const begin = () => {
    const child = fork(path, [queue, JSON.stringify(options)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    w.children.add(child)
    child.on('message', (m) => w.attempts.push(m))
    child.on('exit', (code, signal) => {
      w.children.delete(child)
      if (signal === 'SIGKILL') w.deaths++
      if (!w.stopping) begin()
    })
  }
  for (let i = 0; i < n; i++) begin()
  w.stop = async () => {
    w.stopping = true
    for (const child of w.children) child.kill('SIGTERM')
    await eventually(() => w.children.size === 0, 'the workers end')
  }
  w.runs = (id) => w.attempts.filter((a) => a.id === id).length
  t.after(w.stop)
  return w
}

test('a message that kills its process is dead-lettered, and no neighbour is', minutes, async (t) => {
  const f = await fixture(t)
  const w = workers(t, f.queue, 2, { maxRetries: 1, concurrency: 3, prefetch: 5 })
  const ids = []
  for (let n = 0; n < 12; n++) ids.push(`slow${n}`)
  for (const id of [...ids.slice(0, 4), 'kill', ...ids.slice(4)]) await f.publish(id)
  const [dead, ...others] = await f.dead(1)
  assert.equal(idOf(dead), 'kill')
  assert.equal(others.length, 0)
  await eventually(() => ids.every((id) => w.runs(id) >= 1), 'all neighbours')
  await w.stop()
  assert.ok(w.runs('kill') >= 2 && w.runs('kill') <= 4, `the killer ran ${w.runs('kill')} times`)
  const record = parseRecord(await f.redis.getBuffer(keys({ vhost: '/', queue: f.queue, id: 'kill' }).record))
  assert.deepEqual([record.state, record.crashes, record.cause], ['exhausted', 2, 'crashed'])
})

test('a store whose replies take 0.8 s counts', minutes, async (t) => {
  const proxy = await listen(redisURL)
  t.after(() => proxy.close())
  const f = await fixture(t)
  const counter = dial(proxy.url)
  t.after(() => counter.close())
  proxy.delay(800)
  await f.publish('bad')
  const { events } = f.consume(() => { throw new Error('no') }, { counter, maxRetries: 1 })
  await f.dead(1)
  assert.deepEqual(events.map((e) => e.outcome).filter((o) => o !== 'hold'), ['retry', 'requeue', 'dead-letter'])
})

test('two Node consumers and one Go consumer share each count', minutes, async (t) => {
  const f = await fixture(t)
  const command = spawn(process.env.STRIKES ?? 'strikes', [
    'consume', f.queue, '--amqp-url', amqpURL, '--store-url', redisURL, '--concurrency', '2', '--backoff', '20ms',
    '--', 'sh', '-c', 'echo "$STRIKES_MESSAGE_ID"; case $STRIKES_MESSAGE_ID in bad*) exit 1;; esac',
  ], { stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = new Promise((resolve) => command.on('exit', resolve))
  t.after(async () => { command.kill('SIGTERM'); await ended })
  let byGo = ''
  let log = ''
  command.stdout.on('data', (data) => { byGo += data })
  command.stderr.on('data', (data) => { log += data })
  command.on('error', (err) => { log += err })
  await eventually(async () => (await f.channel.checkQueue(f.queue)).consumerCount === 1, `the Go consumer: ${log}`)
  const w = workers(t, f.queue, 2, { concurrency: 2, prefetch: 4 })
  await eventually(async () => (await f.channel.checkQueue(f.queue)).consumerCount === 3, 'three consumers')
  const bad = Array.from({ length: 40 }, (_, n) => `bad${n}`)
  const good = Array.from({ length: 60 }, (_, n) => `good${n}`)
  await Promise.all([...bad, ...good].map((id) => f.publish(id)))
  const dead = await f.dead(40)
  assert.deepEqual(dead.map(idOf).sort(), bad.slice().sort())
  await eventually(async () => await f.depth() === 0, 'an empty queue')
  await w.stop()
  command.kill('SIGTERM')
  await ended
  const go = byGo.split('\n').filter((line) => /^(bad|good)\d+$/.test(line))
  for (const id of bad) assert.equal(w.runs(id) + go.filter((g) => g === id).length, 4, id)
  for (const id of good) assert.equal(w.runs(id) + go.filter((g) => g === id).length, 1, id)
  assert.ok(go.length > 0 && w.attempts.length > 0, `${go.length} by Go, ${w.attempts.length} by Node`)
})

test('a connection that is cut: nothing is counted, and the next session goes on', minutes, async (t) => {
  const proxy = await listen(amqpURL)
  t.after(() => proxy.close())
  const f = await fixture(t, { url: proxy.url })
  let cuts = 0
  const runs = new Map()
  const aborted = []
  const { events } = f.consume(async (m, { signal }) => {
    const n = (runs.get(idOf(m)) ?? 0) + 1
    runs.set(idOf(m), n)
    if (idOf(m) === 'cut' && cuts < 3) {
      cuts++
      const end = new Promise((resolve) => signal.addEventListener('abort', resolve))
      proxy.cut()
      await end
      aborted.push(n)
      throw new Error('its session is lost')
    }
    if (idOf(m) === 'bad') throw new Error('bad')
  }, { maxRetries: 2, prefetch: 1 })
  for (const id of ['a', 'cut', 'bad', 'b']) await f.publish(id)
  await f.dead(1)
  await eventually(() => events.filter((e) => e.outcome === 'ack').length >= 3, 'acks')
  assert.deepEqual(aborted, [1, 2, 3])
  assert.equal(runs.get('cut'), 4)
  assert.equal(runs.get('bad'), 3)
  const record = parseRecord(await f.redis.getBuffer(keys({ vhost: '/', queue: f.queue, id: 'cut' }).record))
  assert.deepEqual([record.state, record.failures, record.crashes], ['done', 0, 0])
})

test('a server cancel ends the session, and a queue that is back is consumed', minutes, async (t) => {
  const f = await fixture(t, { type: 'classic' })
  const { events } = f.consume(() => {})
  await f.publish('a')
  await eventually(() => events.length === 1, 'an ack')
  await f.channel.deleteQueue(f.queue)
  await f.channel.assertQueue(f.queue, {
    durable: true,
    arguments: { 'x-queue-type': 'classic', 'x-dead-letter-exchange': `${f.queue}.dlx` }
  })
  await f.publish('b')
  await eventually(() => events.length === 2, 'a second ack')
})

test('a store outage: first deliveries go on, the rest is held', minutes, async (t) => {
  const proxy = await listen(redisURL)
  const f = await fixture(t)
  const counter = dial(proxy.url)
  t.after(async () => { counter.close(); await proxy.close() })
  const runs = new Map()
  const { events } = f.consume((m) => {
    runs.set(idOf(m), (runs.get(idOf(m)) ?? 0) + 1)
    if (idOf(m) === 'bad') throw new Error('bad')
  }, { counter, maxRetries: 1, concurrency: 2 })
  await f.publish('warm')
  await eventually(() => events.length === 1, 'an ack')
  proxy.refuse()
  await f.publish('bad')
  for (let n = 0; n < 10; n++) await f.publish(`m${n}`)
  await eventually(() => events.filter((e) => e.outcome === 'ack').length === 11, 'acks in the outage')
  await eventually(() => events.some((e) => e.outcome === 'hold'), 'a hold')
  assert.equal(runs.get('bad'), 1)
  proxy.heal()
  const [dead] = await f.dead(1)
  assert.equal(idOf(dead), 'bad')
  assert.equal(runs.get('bad'), 2)
})

test('lost replies: every step is repeated with its token, and counts once', minutes, async (t) => {
  const proxy = await listen(redisURL)
  const f = await fixture(t)
  const counter = dial(proxy.url)
  t.after(async () => { counter.close(); await proxy.close() })
  const runs = new Map()
  let lost = 0
  f.consume((m) => {
    runs.set(idOf(m), (runs.get(idOf(m)) ?? 0) + 1)
    if (lost < 4) {
      lost++
      proxy.swallowReplies()
      setTimeout(() => proxy.heal(), 300)
    }
    throw new Error('bad')
  }, { counter, maxRetries: 2, concurrency: 3, backoff: () => 1 })
  for (let n = 0; n < 5; n++) await f.publish(`m${n}`)
  await f.dead(5)
  assert.equal(lost, 4)
  for (const [id, n] of runs) {
    assert.equal(n, 3, id)
    const record = parseRecord(await f.redis.getBuffer(keys({ vhost: '/', queue: f.queue, id }).record))
    assert.deepEqual([record.failures, record.crashes, record.state], [3, 0, 'exhausted'], id)
  }
})

test('pause, resume and skip by the strikes command', minutes, async (t) => {
  const f = await fixture(t)
  const runs = []
  const warned = []
  const { events } = f.consume(
    (m) => {
      runs.push(idOf(m))
      if (idOf(m) === 'bad') throw new Error('bad')
    },
    { backoff: () => 600_000, logger: { ...console, info() {}, warn: (text) => warned.push(text) } }
  )
  const strikes = async (...args) => {
    const child = spawn(process.env.STRIKES ?? 'strikes', [...args, '--amqp-url', amqpURL, '--store-url', redisURL], {
      stdio: ['ignore', 'ignore', 'pipe']
    })
    let log = ''
    child.stderr.on('data', (data) => { log += data })
    assert.equal(await new Promise((resolve) => child.on('exit', resolve)), 0, log)
  }
  await f.publish('bad')
  await eventually(() => events.some((e) => e.outcome === 'retry'), 'a retry')
  await strikes('skip', f.queue, 'bad', '--why', 'a test', '--yes')
  const [dead] = await f.dead(1)
  assert.equal(idOf(dead), 'bad')
  assert.equal(events.find((e) => e.outcome === 'dead-letter').cause, 'skipped')
  await strikes('pause', f.queue, '--why', 'a test')
  await eventually(async () => (await f.channel.checkQueue(f.queue)).consumerCount === 0, 'no consumer')
  await f.publish('later')
  await strikes('resume', f.queue)
  await eventually(() => runs.includes('later'), 'the message after the pause')
  // on a busy machine a read of the store may be late, which is another warning
  assert.deepEqual(warned.filter((text) => /^(paused|resumed)/.test(text)), ['paused', 'resumed'])
})

const every = {
  byte: { '!': 'int8', value: -3 }, ubyte: { '!': 'uint8', value: 200 }, short: { '!': 'int16', value: -300 },
  ushort: { '!': 'uint16', value: 60000 }, int: { '!': 'int32', value: -70000 }, uint: { '!': 'uint32', value: 4e9 },
  long: { '!': 'int64', value: -5e12 }, float: { '!': 'float', value: 1.5 }, double: 2.25,
  decimal: { '!': 'decimal', value: { places: 2, digits: 314 } }, text: 'é', bytes: Buffer.from([0xff, 0]), yes: true,
  none: null, time: { '!': 'timestamp', value: 1_700_000_000 }, list: [1, 'two', [3, { four: 4 }]],
  table: { a: { b: { c: 'deep' } } }, '': 'an empty name'
}

test('headers of every type, a 255-byte id and a 16 MiB body survive the dead-letter queue', minutes, async (t) => {
  const f = await fixture(t)
  let runs = 0
  f.consume(() => { runs++; throw new Error('bad') }, { maxRetries: 1 })
  const id = 'é'.repeat(127) + 'x'
  const body = Buffer.alloc(16 * 1024 * 1024, 'strikes')
  await f.publish(id, body, { headers: every })
  const [dead] = await f.dead(1)
  assert.equal(runs, 2)
  assert.equal(idOf(dead), id)
  assert.ok(dead.content.equals(body))
  for (const [name, value] of Object.entries(every)) {
    const got = dead.properties.headers[name]
    const plain = typeof value?.['!'] === 'string' && !['decimal', 'timestamp'].includes(value['!'])
    assert.deepEqual(got, plain ? value.value : value, name)
  }
  // A tool moves it back with its headers: a new generation, with all its attempts.
  const again = { messageId: id, headers: dead.properties.headers, persistent: true }
  f.channel.sendToQueue(f.queue, Buffer.from('again'), again)
  await eventually(() => runs === 4, 'two attempts of the next generation')
  const found = await f.redis.keys(`strikes:1:{%2F/${f.queue}}:r:${member(id, '').slice(0, 32)}:*`)
  assert.equal(found.length, 2)
})

test('an id that is not UTF-8 has the same count as in Go', minutes, async (t) => {
  const proxy = await listen(amqpURL)
  t.after(() => proxy.close())
  proxy.rewrite(Buffer.from('id-PQ'), Buffer.from([0x69, 0x64, 0x2D, 0xFF, 0xFE]))
  const f = await fixture(t)
  const id = Buffer.from([0x69, 0x64, 0x2D, 0xFF, 0xFE])
  const raw = await amqp.connect(proxy.url)
  const name = nameFor(Buffer.from(f.queue), id, id, Buffer.alloc(0)).toString()
  const headers = { 'x-strikes-generation': 'id-PQ', 'x-strikes-for': name }
  const message = { routingKey: f.queue, content: Buffer.from('x'), options: { messageId: 'id-PQ', headers } }
  await publish(await raw.createConfirmChannel(), message)
  await raw.close()
  const { events, stop } = f.consume(() => { throw new Error('bad') }, { backoff: () => 300 })
  await eventually(() => events.some((e) => e.outcome === 'retry'), 'a retry')
  await stop()
  const at = keys({ vhost: '/', queue: f.queue, id, generation: Buffer.concat([Buffer.from('header:'), id]) }).record
  const record = parseRecord(await f.redis.getBuffer(at))
  assert.deepEqual([record.failures, record.id], [1, id])
  const command = spawn(
    process.env.STRIKES ?? 'strikes',
    ['consume', f.queue, '--amqp-url', amqpURL, '--store-url', redisURL, '--backoff', '20ms', '--', 'false'],
    { stdio: 'ignore' }
  )
  const ended = new Promise((resolve) => command.on('exit', resolve))
  t.after(async () => { command.kill('SIGTERM'); await ended })
  await f.dead(1)
  assert.deepEqual(parseRecord(await f.redis.getBuffer(at)).failures, 4, 'Go went on with the same record')

  // Without the bytes of its properties it is refused.
  const channel = await f.model.createChannel()
  const m = await channel.get(`${f.queue}.dlq`, { noAck: false })
  const settler = new Settler({ queue: f.queue, counter: f.counter })
  await assert.rejects(settler.handle(channel, m, () => {}), /not UTF-8/)
  await channel.close()
})
