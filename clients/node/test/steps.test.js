import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { after, test } from 'node:test'
import { Redis } from 'ioredis'
import { Counter, dial } from '../src/counter.js'
import { StoreError } from '../src/errors.js'
import { keys } from '../src/key.js'
import { parseRecord } from '../src/record.js'
import { newToken } from '../src/token.js'
import { listen } from './proxy.js'
import { eventually, plainRedis, redisURL, unique } from './servers.js'

const redis = plainRedis()
const counter = dial(redisURL)
after(() => { redis.disconnect(); counter.close() })

const attempt = (more = {}) => ({
  vhost: '/', queue: unique(), id: 'm1', generation: '', token: newToken(), consumer: 'a test', ...more
})
const recordOf = async (a) => parseRecord(await redis.getBuffer(keys(a).record))

test('failures up to the limit, then the tombstone', async () => {
  const a = attempt({ first: true })
  const first = await counter.fail(a, { limit: 2, wait: 1500, reason: 'boom' })
  assert.deepEqual([first.code, first.failures, first.limit, first.wait], ['REQUEUE', 1, 2, 1500])
  const again = { ...a, first: false, token: newToken() }
  const waits = await counter.start(again, 'shared', 2)
  assert.equal(waits.code, 'WAIT')
  assert.ok(waits.wait > 0 && waits.wait <= 1500, String(waits.wait))
  await new Promise((resolve) => setTimeout(resolve, waits.wait + 1))
  const run = await counter.start(again, 'shared', 2)
  assert.equal(run.code, 'RUN')
  assert.ok(run.fence > 1.6e15)
  const last = await counter.fail(again, { limit: 2, reason: 'boom again', cause: 'timed-out' })
  assert.deepEqual([last.code, last.failures, last.cause, last.reason], ['EXHAUSTED', 2, 'timed-out', 'boom again'])
  assert.deepEqual(await counter.fail(again, { limit: 2 }), last, 'its reply was lost')
  const record = await recordOf(a)
  assert.equal(record.state, 'exhausted')
  assert.deepEqual({ ...record.tokens }, { [a.token]: 'f', [again.token]: 'f' })
  assert.ok(await redis.pttl(keys(a).record) > 6.9 * 24 * 3600 * 1000)
})

test('an open attempt makes a suspect, an isolated one counts a crash, and END reverses it', async () => {
  const died = attempt()
  assert.equal((await counter.start(died, 'shared', 3)).code, 'RUN')
  const next = { ...died, token: newToken() }
  assert.equal((await counter.start(next, 'shared', 3)).code, 'SUSPECT')
  assert.equal((await counter.start(next, 'isolated', 3)).code, 'RUN')
  assert.equal((await counter.begun(next)).code, 'BEGUN')
  const later = await counter.start({ ...died, token: newToken() }, 'isolated', 3)
  assert.deepEqual([later.code, later.crashes], ['RUN', 1])
  assert.equal((await counter.end(next, false)).crashes, 0)
})

test('ids, generations and reasons are bytes', async () => {
  const id = Buffer.from([0xFF, 0x00, 0xFE, ...Buffer.from('é')])
  const a = attempt({ id, generation: Buffer.from([0xFF]) })
  await counter.fail(a, { limit: 9, reason: '€'.repeat(1000) })
  const record = await recordOf(a)
  assert.deepEqual(record.id, id)
  assert.deepEqual(record.generation, Buffer.from([0xFF]))
  assert.equal(record.reason.length, 1023)
  const long = attempt({ id: 'é'.repeat(300), consumer: 'h'.repeat(600) })
  await counter.fail(long, { limit: 9 })
  const cut = await recordOf(long)
  assert.deepEqual([cut.id.length, cut.consumer.length], [512, 512])
})

test('the server forgets its scripts', async () => {
  await redis.script('FLUSH')
  assert.equal((await counter.start(attempt(), 'shared', 3)).code, 'RUN')
})

test('a key of another program fails its step alone', async () => {
  const a = attempt()
  await redis.set(keys(a).record, 'mine')
  await assert.rejects(counter.start(a, 'shared', 3), { name: 'StoreError', fault: 'foreign' })
  await redis.del(keys(a).record)
  await redis.set(keys(a).index, 'mine')
  await assert.rejects(counter.fail(a, { limit: 3 }), { name: 'StoreError', fault: 'foreign' })
})

test('pause, resume and skip', async () => {
  const queue = unique()
  const reader = { token: newToken(), consumer: 'a test', state: /** @type {const} */ ('consuming') }
  assert.deepEqual(await counter.control('/', queue, reader), {
    paused: false, by: '', why: '', at: 0, skips: new Set()
  })
})

test('settings by which ioredis would repeat or queue commands are refused', () => {
  const unsafe = new Redis(redisURL, { lazyConnect: true })
  assert.throws(() => new Counter(unsafe), /redis.options.enableOfflineQueue must be false/)
  const prefixed = new Redis(redisURL, {
    lazyConnect: true, enableOfflineQueue: false, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false,
    keyPrefix: 'x'
  })
  assert.throws(() => new Counter(prefixed), /keyPrefix/)
  assert.throws(
    () => new Counter(new Redis.Cluster([{ host: '127.0.0.1', port: 1 }], { lazyConnect: true })),
    /Cluster/
  )
  assert.throws(
    () => dial('postgres://root:secret@127.0.0.1/counts'),
    /must be redis, rediss or unix, .* strikes consume.* got "postgres"$/
  )
  assert.throws(() => dial(redisURL, { ttl: 1 }), /ttl must be/)
  assert.throws(() => dial(redisURL, { prefix: '{a}' }), /prefix must be/)
})

test('settings by which ioredis would change commands or replies have no effect', async (t) => {
  const counter = dial(redisURL, {
    redis: { enableAutoPipelining: true, stringNumbers: true, reconnectOnError: () => 2 }
  })
  t.after(() => counter.close())
  assert.equal((await counter.start(attempt(), 'shared', 3)).code, 'RUN')
  assert.equal(counter.redis.options.reconnectOnError, null)
})

test('bad attempts are refused before they are sent', async () => {
  await assert.rejects(counter.start(attempt({ id: '' }), 'shared', 3), /id must be/)
  await assert.rejects(counter.start(attempt({ token: 'a b' }), 'shared', 3), /token must be/)
  await assert.rejects(counter.start(attempt({ token: 'a'.repeat(65) }), 'shared', 3), /token must be/)
  await assert.rejects(counter.start(attempt(), 'shared', 0), /limit must be/)
  await assert.rejects(counter.start(attempt({ fence: 2 ** 53 }), 'shared', 3), /fence must be/)
  await assert.rejects(counter.fail(attempt(), { limit: 3, cause: /** @type {any} */ ('boredom') }), /cause must be/)
})

test('a lost reply leaves a step undecided, and it is sent once', async () => {
  const proxy = await listen(redisURL)
  const behind = dial(proxy.url)
  try {
    const a = attempt()
    await behind.start(a, 'shared', 3) // knows the script
    proxy.swallowReplies()
    const { stream } = behind.redis
    await assert.rejects(behind.start(a, 'shared', 3, { timeout: 200 }), { name: 'StoreError', fault: 'slow' })
    assert.equal(proxy.requests.filter((r) => r.includes('evalsha')).length, 2)
    assert.ok(!stream.destroyed, 'the other steps have their second')
    await eventually(() => stream.destroyed, 'another connection')
    proxy.heal()
    assert.equal((await behind.start(a, 'shared', 3)).code, 'RUN')
    assert.equal(proxy.requests.filter((r) => r.includes('evalsha')).length, 3)
    const under = behind.start(attempt(), 'shared', 3)
    proxy.cut()
    await under.catch((err) => assert.equal(err.fault, 'unreachable'))
    proxy.refuse()
    await assert.rejects(behind.start(a, 'shared', 3, { timeout: 300 }), { name: 'StoreError', fault: 'unreachable' })
    proxy.heal()
    assert.equal((await behind.start(a, 'shared', 3, { timeout: 3000 })).code, 'RUN')
  } finally {
    behind.close()
    await proxy.close()
  }
})

test('credentials that are refused', async () => {
  const url = new URL(redisURL)
  url.username = 'nobody'
  url.password = 'secret-of-the-test'
  const denied = dial(url.href)
  try {
    const err = await denied.start(attempt(), 'shared', 3).catch((e) => e)
    assert.ok(err instanceof StoreError)
    assert.ok(!err.message.includes('secret-of-the-test'))
    assert.equal(err.fault, 'denied', err.message)
  } finally {
    denied.close()
  }
})

test('a database that does not exist is not replaced by database 0', async () => {
  const url = new URL(redisURL)
  url.pathname = '/999999'
  const missing = dial(url.href)
  try {
    await assert.rejects(missing.start(attempt(), 'shared', 3), { fault: 'not set up' })
  } finally {
    missing.close()
  }
})

test('a reply that came while the event loop was blocked is in time', async (t) => {
  const own = dial(redisURL)
  t.after(() => own.close())
  const a = attempt({ first: true })
  await own.fail(a, { limit: 2 })
  const { stream } = own.redis
  const failing = own.fail({ ...a, token: newToken() }, { limit: 2 }, { timeout: 100 })
  for (const until = performance.now() + 300; performance.now() < until;);
  assert.equal((await failing).code, 'EXHAUSTED')
  assert.equal(own.redis.stream, stream)
  assert.ok(stream.writable, 'the connection is kept')
})

const denied = "READONLY You can't write against a read only replica."
const wrapped = `ERR Error running script (call to f_1): @user_script:1: -${denied}`
for (const [what, says, left] of [
  ['of Redis 7 that became a replica is left: its address may lead elsewhere now', denied, true],
  ['of Redis 6 that became a replica is left', wrapped, true],
  ['that cannot save keeps its connection', 'MISCONF Redis is configured to save RDB snapshots', false]
]) {
  test(`a server ${what}`, async (t) => {
    let connections = 0
    const info = 'redis_version:7.0.0\r\nloading:0'
    const server = createServer((socket) => {
      connections++
      socket.on('error', () => {})
      socket.on('data', (data) => {
        const asks = data.toString('latin1').includes('info')
        socket.write(asks ? `$${info.length}\r\n${info}\r\n` : `-${says}\r\n`)
      })
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const away = dial(`redis://127.0.0.1:${server.address().port}`)
    t.after(() => { away.close(); server.close() })
    for (let step = 0; step < 2; step++)
      await assert.rejects(away.fail(attempt(), { limit: 4 }), { fault: 'read-only' })
    assert.equal(connections > 1, left)
  })
}
