// The settler on a fake channel and a fake store: which steps it sends, and how it settles.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Consumer } from '../src/consumer.js'
import { Deliveries } from '../src/deliveries.js'
import { Delivery } from '../src/delivery.js'
import { StoreError } from '../src/errors.js'
import { ofProcess } from '../src/isolation.js'
import { Late } from '../src/late.js'
import { publish } from '../src/publisher.js'
import { Settler } from '../src/settler.js'
import { notCounted, reject, retryAfter } from '../src/steer.js'
import { eventually } from './servers.js'

const reply = (code, more = {}) => ({
  code, failures: 0, crashes: 0, limit: 4, fence: 1, wait: 0, cause: '', reason: '', possibleDuplicate: false, ...more
})
const lost = new StoreError('slow', 'no reply in time')

/**
 * Answers each step with the next of its replies, and notes it.
 * An Error is thrown; without a reply the step is never answered.
 */
function fakeStore(...replies) {
  const store = { steps: [] }
  const answer = (name, a, ...rest) => {
    store.steps.push([name, a.token, ...rest])
    const next = replies.length > 0 ? replies.shift() : lost
    return next instanceof Error ? Promise.reject(next) : Promise.resolve(next)
  }
  store.start = (a, mode, limit) => answer('START', a, mode, limit)
  store.begun = (a) => answer('BEGUN', a)
  store.fail = (a, f) => answer('FAIL', a, f.limit, f.cause, f.reason)
  store.end = (a, succeeded) => answer('END', a, succeeded)
  store.named = () => store.steps.map(([name, , ...rest]) => [name, ...rest].join(' '))
  store.tokens = () => new Set(store.steps.map(([, token]) => token)).size
  store.push = (...more) => replies.push(...more)
  return store
}

function fakeChannel() {
  const settled = []
  return {
    settled, ack: () => settled.push('ack'),
    nack: (m, all, requeue) => settled.push(requeue ? 'requeue' : 'dead-letter')
  }
}

const message = (redelivered = false, messageId = 'm1') => ({
  fields: { redelivered, deliveryTag: 1 }, properties: { messageId, headers: {} }, content: Buffer.alloc(0)
})

async function handle(store, m, handler, options = {}, more = {}) {
  const channel = fakeChannel()
  const settler = new Settler({ queue: 'q', counter: store, backoff: () => 1, ...options })
  const { outcome, error } = await settler.handle(channel, m, handler, more)
  return { outcome, error, settled: channel.settled }
}

const succeed = () => {}
const fail = () => { throw new Error('boom') }

for (const [name, m, handler, replies, steps, settled, options] of [
  ['a success', message(), succeed, [], [], 'ack'],
  ['a redelivery', message(true), succeed, [reply('RUN'), reply('ENDED')], ['START shared 4', 'END true'], 'ack'],
  ['a failure', message(), fail, [reply('REQUEUE', { failures: 1 })], ['FAIL 4 failed boom'], 'requeue'],
  [
    'the last failure', message(true), fail, [reply('RUN'), reply('EXHAUSTED')],
    ['START shared 4', 'FAIL 4 failed boom'], 'dead-letter'
  ],
  ['a tombstone', message(true), fail, [reply('EXHAUSTED')], ['START shared 4'], 'dead-letter'],
  [
    'a backoff that is not over', message(true), succeed, [reply('WAIT', { wait: 5 }), reply('RUN'), reply('ENDED')],
    ['START shared 4', 'START shared 4', 'END true'], 'ack'
  ],
  [
    'a suspect', message(true), succeed, [reply('SUSPECT'), reply('RUN'), reply('BEGUN'), reply('ENDED')],
    ['START shared 4', 'START isolated 4', 'BEGUN', 'END true'], 'ack'
  ],
  [
    'in place', message(), fail, [reply('REQUEUE'), reply('RUN'), reply('EXHAUSTED')],
    ['FAIL 4 failed boom', 'START shared 4', 'FAIL 4 failed boom'], 'dead-letter', { retry: 'in-place' }
  ],
  [
    'no isolation', message(true), succeed, [reply('RUN'), reply('ENDED')], ['START untracked 4', 'END true'], 'ack',
    { isolation: 'off' }
  ],
  ['no id', message(false, null), fail, [], [], 'dead-letter'],
  ['no id, redelivered', message(true, ''), succeed, [], [], 'dead-letter'],
  [
    'a lost FAIL', message(), fail, [lost, lost, reply('REQUEUE')],
    ['FAIL 4 failed boom', 'FAIL 4 failed boom', 'FAIL 4 failed boom'], 'requeue'
  ],
  [
    'a lost END', message(true), succeed, [reply('RUN'), lost, reply('ENDED')],
    ['START shared 4', 'END true', 'END true'], 'ack'
  ],
  [
    'a code of another step', message(true), succeed, [reply('REQUEUE'), reply('RUN'), reply('ENDED')],
    ['START shared 4', 'START shared 4', 'END true'], 'ack'
  ]
]) {
  test(name, { timeout: 300_000 }, async () => {
    const store = fakeStore(...replies)
    const got = await handle(store, m, handler, options)
    assert.deepEqual([store.named(), got.settled, got.error], [steps, [settled], undefined])
    if (!options?.retry) assert.ok(store.tokens() <= 1, 'one attempt has one token')
  })
}

test('the backoff grows with attempts that are not counted; the failure that follows is the first one', async () => {
  const thrown = [notCounted('away'), notCounted('away'), retryAfter(notCounted('away'), 150), new Error('boom')]
  const events = []
  const asked = []
  const store = fakeStore(
    reply('RUN'), reply('ENDED'), reply('RUN'), reply('ENDED'), reply('RUN'), reply('REQUEUE', { failures: 1 })
  )
  const got = await handle(
    store,
    message(),
    () => {
      throw thrown[events.length]
    },
    {
      observer: (e) => events.push(e),
      backoff: (n) => {
        asked.push(n)
        return 100 + n
      }
    }
  )
  assert.deepEqual(
    [store.named(), got.settled, asked],
    [
      ['START shared 4', 'END false', 'START shared 4', 'END false', 'START shared 4', 'FAIL 4 failed boom'],
      ['requeue'], [1, 2, 1]
    ]
  )
  assert.deepEqual(
    events.slice(0, 3).map((e) => [e.outcome, e.wait, e.error.message]),
    [
      ['not-counted', 101, 'away'], ['not-counted', 102, 'away'], ['not-counted', 150, 'away']
    ]
  )
})

test('a lost START of an isolated attempt: the gate is shut until its END is answered', async () => {
  const { gate } = ofProcess()
  const store = fakeStore(reply('SUSPECT'))
  const done = handle(store, message(true), succeed)
  await eventually(() => gate.closed, 'a shut gate')
  assert.ok(store.named().filter((s) => s === 'START isolated 4').length >= 4, 'START was repeated under the lock')
  let ran = false
  const other = handle(fakeStore(reply('RUN'), reply('ENDED')), message(true), () => { ran = true })
  assert.equal((await handle(fakeStore(), message(), succeed)).outcome, 'ack', 'first deliveries go on')
  assert.equal(ran, false)
  store.push(...Array(20).fill(reply('RUN')))
  assert.equal((await other).outcome, 'ack')
  assert.equal((await done).outcome, 'ack')
  assert.equal(gate.closed, false)
  assert.ok(store.named().includes('END false'), 'the attempt in doubt was closed')
})

test('a stop: a failure is not counted, the attempt is closed, and nothing is settled', async () => {
  const controller = new AbortController()
  const store = fakeStore(reply('RUN'), reply('ENDED'))
  const got = await handle(store, message(true), (_, { signal }) => new Promise((_resolve, fail) => {
    signal.addEventListener('abort', () => fail(signal.reason))
    controller.abort()
  }), {}, { signal: controller.signal })
  assert.deepEqual([got.outcome, got.settled, store.named()], ['leave', [], ['START shared 4', 'END false']])
  const stopped = await handle(fakeStore(), message(), succeed, {}, { signal: AbortSignal.abort() })
  assert.deepEqual([stopped.outcome, stopped.settled], ['leave', []])
})

test('a rejection is dead-lettered in an outage, and counted when the store is back', async () => {
  const store = fakeStore(lost, lost, reply('EXHAUSTED'))
  const got = await handle(store, message(), () => { throw reject('no') })
  assert.equal(got.outcome, 'dead-letter')
  await eventually(() => store.steps.length === 3, 'a late FAIL')
  assert.deepEqual([...new Set(store.named())], ['FAIL 0 rejected no'])
  assert.equal(store.tokens(), 1)
})

test('a rejection that a broken route holds in an outage stays one at a stop: no END takes it back', async () => {
  const { settings } = new Settler({ queue: 'q', counter: fakeStore(reply('RUN'), lost, lost, reply('EXHAUSTED')) })
  const { counter } = settings
  const route = { state: async () => ({ wait: 60_000, broken: new Error('no exchange') }) }
  const rejects = () => { throw reject('no') }
  const deliveries = new Deliveries(settings, rejects, { isolation: ofProcess(), late: new Late(), route })
  const channel = fakeChannel()
  const done = deliveries.deliver(new Delivery(message(true), channel, settings))
  await eventually(() => counter.named().includes('START untracked 4'), 'the dead letter is held')
  deliveries.live.end()
  assert.equal((await done).outcome, 'leave')
  await eventually(() => counter.steps.length === 4, 'a late FAIL')
  assert.deepEqual(new Set(counter.named()), new Set(['START shared 4', 'START untracked 4', 'FAIL 0 rejected no']))
  assert.deepEqual(channel.settled, [])
})

test('an ack on a closed channel leaves the delivery', async () => {
  const settler = new Settler({ queue: 'q', counter: fakeStore() })
  const closed = { ack() { throw new Error('Channel closed') }, nack() {} }
  const { outcome, error } = await settler.handle(closed, message(), succeed)
  assert.equal(outcome, 'leave')
  assert.equal(error.name, 'SettlementError')
})

test('callbacks that throw', async () => {
  const bad = () => { throw new Error('a trap') }
  assert.equal((await handle(fakeStore(), message(), succeed, { observer: bad })).outcome, 'ack')
  assert.equal((await handle(fakeStore(), message(), succeed, { key: bad })).outcome, 'ack')
  assert.equal((await handle(fakeStore(reply('REQUEUE')), message(), fail, { backoff: bad })).outcome, 'requeue')
  const odd = { toString() { throw new Error('a trap') } }
  assert.equal((await handle(fakeStore(reply('REQUEUE')), message(), () => { throw odd })).outcome, 'requeue')
  assert.equal((await handle(fakeStore(reply('REQUEUE')), message(), () => Promise.reject())).outcome, 'requeue')
})

test('a backoff that throws or returns no number is replaced by the default one', async () => {
  const waits = []
  for (const backoff of [() => { throw new Error('a trap') }, () => NaN, () => '5']) {
    const store = fakeStore()
    store.fail = async (a, f) => { waits.push(f.wait); return reply('REQUEUE', { failures: 1 }) }
    await handle(store, message(), fail, { backoff })
  }
  assert.ok(waits.length === 3 && waits.every((ms) => ms >= 49 && ms <= 100), String(waits))
})

test('a key that is a whole number is its digits', async () => {
  const ids = []
  for (const key of [17, '17', 1.5, NaN]) {
    await handle(fakeStore(), message(), (_, { id }) => { ids.push(id.toString()) }, { key: () => key })
  }
  assert.deepEqual(ids, ['17', '17', '', ''])
})

test('a name that is no text is refused: no step could be sent', () => {
  const named = { queue: 'q', counter: fakeStore(), name: 17 }
  assert.throws(() => new Settler(named), { name: 'FieldError', field: 'name' })
})

test('callbacks whose promises are rejected', async () => {
  const errors = []
  const logger = { info() {}, warn() {}, error: (text, { error }) => errors.push(error.message) }
  for (const name of ['observer', 'key', 'backoff']) {
    const options = { logger, [name]: () => Promise.reject(new Error(`a trap in ${name}`)) }
    await handle(fakeStore(reply('REQUEUE')), message(), fail, options)
    await eventually(() => errors.includes(`a trap in ${name}`), 'it is logged, and the process lives')
  }
  for (const name of ['key', 'backoff']) { // no message would have an id
    const wrong = { queue: 'q', counter: fakeStore(), [name]: async () => 'a' }
    assert.throws(() => new Settler(wrong), { name: 'FieldError', field: name })
  }
})

test('an option that does not exist is refused by its name', () => {
  const known = { queue: 'q', counter: fakeStore() }
  const message = /^max_retry must be left out, .*did you mean maxRetries\?\), got 2$/
  assert.throws(() => new Settler({ ...known, max_retry: 2 }), { name: 'FieldError', message })
  assert.throws(() => new Settler({ ...known, prefetch: 2 }), /^FieldError: prefetch must be left out/)
  const own = { url: 'amqp://x', handler() {} }
  assert.throws(() => new Consumer({ ...known, ...own, ordered: true }), /^FieldError: ordered must be left out/)
  new Settler({ ...known, maxRetires: undefined }) // as spreading an optional setting gives
  new Consumer({ ...known, ...own, prefetch: 2, drainTimeout: 1, check: false, allowDrop: true })
})

test('a time that is a text, as the environment gives it, is refused by its name', () => {
  const known = { queue: 'q', counter: fakeStore(), url: 'amqp://x', handler() {} }
  for (const field of ['handlerTimeout', 'consumerTimeout', 'drainTimeout', 'maxAge', 'patience'])
    assert.throws(() => new Consumer({ ...known, breaker: 8, [field]: '60000' }), { name: 'FieldError', field })
})

test('a channel without confirms is refused: publish would never resolve', () => {
  const plain = { publish: () => true, on() {} }
  const text = /^channel must be a confirm channel, made by createConfirmChannel, got object$/
  assert.throws(() => publish(plain, { routingKey: 'q', content: Buffer.from('') }), { message: text })
})

test('the logger gets each dead letter as a warning and each retry at debug, without an observer', async () => {
  const lines = []
  const line = (level) => (text, fields) => lines.push([level, text, fields])
  const logger = { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
  await handle(fakeStore(reply('REQUEUE', { failures: 1, limit: 4, wait: 5 })), message(), fail, { logger })
  await handle(fakeStore(reply('EXHAUSTED', { failures: 4, limit: 4 })), message(), fail, { logger })
  await handle(fakeStore(), message(false, ''), fail, { logger })
  const first = { queue: 'q', attempt: 1 }
  const retried = 'an attempt failed; the message is retried'
  const noID = 'dead-lettered a message without an id: the store has no record of it'
  const got = lines.map(([level, text, { error, ...fields }]) => [level, text, fields, error?.message])
  assert.deepEqual(got, [
    ['debug', retried, { id: 'm1', ...first, limit: 4, cause: 'failed', wait: 5 }, 'boom'],
    ['warn', 'dead-lettered a message', { id: 'm1', ...first, limit: 4, cause: 'failed' }, 'boom'],
    ['warn', noID, { fingerprint: 'fp:799c55d702ef', ...first, limit: 1, cause: 'no-id' }, 'boom'],
  ])
  lines.length = 0
  const quiet = { ...logger, debug: undefined }
  await handle(fakeStore(reply('REQUEUE', { failures: 1, limit: 4, wait: 5 })), message(), fail, { logger: quiet })
  assert.deepEqual(lines, [])
})

test('the reason of an error whose message is no text is its text', async () => {
  const messages = [[{ code: 1 }, '[object Object]'], [42, '42'], [null, 'null'], [Symbol('x'), 'Symbol(x)']]
  for (const [said, reason] of messages) {
    const store = fakeStore(reply('REQUEUE', { failures: 1 }))
    await handle(store, message(), () => { throw Object.assign(new Error(), { message: said }) })
    assert.deepEqual(store.steps[0].slice(2), [4, 'failed', reason])
  }
})

test('a rejection of what cannot be printed is a rejection', async () => {
  for (const odd of [Object.create(null), Object.assign(new Error(), { message: Symbol('x') })]) {
    const store = fakeStore(reply('EXHAUSTED', { failures: 1 }))
    await handle(store, message(), () => { throw reject(odd) })
    assert.deepEqual(store.steps[0].slice(2, 4), [0, 'rejected'])
  }
})

const observable = { subscribe() {}, pipe() {} }
for (const [name, returned, says] of [
  ['a generator', () => (function* () {})(), 'a generator'],
  ['an async generator', () => (async function* () {})(), 'a generator'],
  ['an Observable', () => observable, 'an Observable'],
  ['a promise of an Observable', () => Promise.resolve(observable), 'an Observable'],
]) {
  test(`${name} that a handler returns is a failure: its work is not done`, async () => {
    const store = fakeStore(reply('REQUEUE', { failures: 1 }))
    const { settled } = await handle(store, message(), returned)
    assert.deepEqual(settled, ['requeue'])
    const text = new RegExp(`^FAIL 4 failed TypeError: the handler returned ${says}, and its work is not done: `)
    assert.match(store.named()[0], text)
  })
}

test('a thenable is done when the promise that it passes on is, and once', async () => {
  const passes = (work) => ({ then(done) { done(work()) } })
  const failed = await handle(fakeStore(reply('REQUEUE')), message(), () => passes(async () => fail()))
  assert.deepEqual(failed.settled, ['requeue'])
  const twice = { then(done, threw) { done(); threw(new Error('too late')) } }
  assert.deepEqual((await handle(fakeStore(), message(), () => twice)).settled, ['ack'])
})

test('what a handler returns may be anything else, such as an iterator or a client', async () => {
  for (const returned of [
    'text', 0, null, { next() {} }, { subscribe() {} }, Object.create(null), Promise.resolve({ subscribe: true })
  ]) {
    const { settled } = await handle(fakeStore(), message(), () => returned)
    assert.deepEqual(settled, ['ack'])
  }
  const bad = Object.defineProperty({}, 'subscribe', { get() { throw new Error('a getter') } })
  for (const returned of [bad, Promise.resolve(bad)]) {
    const { settled } = await handle(fakeStore(reply('REQUEUE')), message(), () => returned)
    assert.deepEqual(settled, ['requeue'])
  }
})
