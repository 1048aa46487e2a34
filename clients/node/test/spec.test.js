// Runs the cases of spec/v1.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { MessageHeaders, readHeaders } from '../src/generation.js'
import { controlKeys, keys, member, queueKey } from '../src/key.js'
import { dial } from '../src/counter.js'
import { plainRedis, redisURL, unique } from './servers.js'
import { table } from './spec-amqp.js'
import { bytes, filled, read, write } from './spec-record.js'

const cases = (name) =>
  JSON.parse(readFileSync(new URL(`../../../spec/v1/${name}.json`, import.meta.url), 'utf8')).cases

/** Refuses a field that this runner does not check. */
function only(object, ...names) {
  for (const name of Object.keys(object)) assert.ok(names.includes(name), `unknown field ${name}`)
}

test('keys', async (t) => {
  for (const c of cases('keys')) {
    await t.test(c.name, () => {
      only(c, 'name', 'why', 'prefix', 'vhost', 'queue', 'id', 'generation', 'keys', 'member')
      const message = { vhost: bytes(c.vhost), queue: bytes(c.queue), id: bytes(c.id), generation: bytes(c.generation) }
      const { override, ...own } = keys(message, c.prefix)
      const undecodable = queueKey(c.prefix, message.vhost, message.queue) + 'undecodable'
      assert.deepEqual(
        { ...own, limit: override, ...controlKeys(message.vhost, message.queue, c.prefix), undecodable },
        c.keys
      )
      assert.equal(member(message.id, message.generation), c.member)
    })
  }
})

test('records', async (t) => {
  for (const c of cases('records')) {
    await t.test(c.name, () => {
      only(c, 'name', 'why', 'text', 'fields')
      const text = bytes(c.text)
      const want = c.fields && filled(c.fields)
      assert.deepEqual(read(text), want)
      if (want) assert.deepEqual(write(want), text)
    })
  }
})

test('generations', async (t) => {
  for (const c of cases('generations')) {
    await t.test(c.name, () => {
      // This client holds no lanes, so it reads no place.
      only(
        c, 'name', 'why', 'queue', 'id', 'body', 'headers', 'generation', 'fence', 'copy_number', 'position', 'foreign'
      )
      const fields = readHeaders(c.headers === null ? undefined : table(c.headers))
      const headers = new MessageHeaders(fields, c.queue, Buffer.from(c.id ?? ''), Buffer.from(c.body ?? ''))
      assert.deepEqual(headers.generation, bytes(c.generation))
      assert.equal(headers.fence, c.fence)
      assert.equal(headers.copyNumber, c.copy_number ?? 0)
      assert.equal(headers.foreign, c.foreign ?? false)
    })
  }
})

const redis = plainRedis()
const store = dial(redisURL)
const prefixes = []
after(async () => {
  for (const prefix of prefixes) {
    const left = await redis.keys(`${prefix}:*`)
    if (left.length > 0) await redis.del(left)
  }
  redis.disconnect()
  store.close()
})

const WEEK = 7 * 24 * 3600 * 1000

async function micros() {
  const [s, us] = await redis.time()
  return Number(s) * 1e6 + Number(us)
}

/** One case of steps.json on the store. */
class Run {
  constructor(c) {
    this.c = c
    this.ttl = c.ttl ?? WEEK
    this.prefix = unique('spec')
    prefixes.push(this.prefix)
    this.counter = Object.assign(Object.create(store), { prefix: this.prefix, ttl: this.ttl, queueKeys: new Map() })
    this.clocks = []
    this.messages = new Map()
  }

  async run() {
    this.begin = await micros()
    await this.give(this.c.given)
    for (const step of this.c.steps) await this.step(step)
    await this.compare(this.c.after)
  }

  ms() {
    return Math.floor(this.begin / 1000)
  }

  message({ id = 'm1', generation = '' }) {
    const m = { vhost: '/', queue: 'orders', id: bytes(id), generation: bytes(generation) }
    const of = keys(m, this.prefix)
    this.messages.set(of.record, { m, of })
    return { m, of }
  }

  async give({ records = [], override, tombstones, pause, skips = [], types = {}, breaker, ...rest }) {
    only(rest)
    if (breaker) await redis.set(this.breakerKey(), breakerText(breaker, this.ms()), 'PX', this.ttl)
    const q = keys({ vhost: '/', queue: 'orders', id: 'm1' }, this.prefix)
    const control = controlKeys('/', 'orders', this.prefix)
    for (const r of records) await this.giveRecord(r)
    if (override) await redis.hset(q.override, override)
    if (tombstones) {
      await redis.hset(q.tombstones, {
        ...tombstones,
        ...(tombstones.since !== undefined && { since: tombstones.since + this.ms() })
      })
    }
    if (pause) {
      await redis.hset(control.pause, {
        ...pause, ...(pause.paused !== undefined && { paused: Number(pause.paused) }),
        ...(pause.at !== undefined && { at: pause.at + this.ms() })
      })
    }
    for (const s of skips)
      await redis.zadd(control.skips, this.ms() + s.until, member(bytes(s.id), bytes(s.generation)))
    const named = { ...q, limit: q.override, ...control }
    for (const [name, type] of Object.entries(types)) {
      assert.equal(type, 'list')
      await redis.rpush(named[name], 'x')
    }
  }

  breakerKey() {
    return keys({ vhost: '/', queue: 'orders', id: 'm1' }, this.prefix).index.replace(/index$/, 'breaker')
  }

  async giveRecord({ string, type, ttl, id, generation, ...fields }) {
    const { of } = this.message({ id, generation })
    if (type !== undefined) return redis.rpush(of.record, 'x')
    if (string !== undefined) return redis.set(of.record, bytes(string), 'PX', this.ttl)
    const f = this.moved(filled({ id, generation, ...fields }), this.ms())
    await redis.set(of.record, write(f), 'PX', ttl)
    if (f.listed === null) return undefined
    const set = f.state === 'exhausted' ? of.dead : of.index
    await redis.zadd(set, this.ms() + ttl, of.record.slice(of.index.length - 'index'.length + 2))
    return redis.pexpire(set, 2 * this.ttl)
  }

  moved(f, by) {
    const out = { ...f, notes: f.notes.map((n) => ({ ...n, at: n.at + by })) }
    if (f.moved?.until) out.moved = { ...f.moved, until: f.moved.until + by }
    for (const name of ['binds', 'due', 'first', 'last', 'since', 'listed']) if (out[name] !== null) out[name] += by
    return out
  }

  async step(step) {
    const { m } = this.message(step)
    const attempt = {
      ...m, token: step.token, consumer: step.consumer, maxAge: step.max_age, delay: step.delay,
      progress: step.progress && progressOf(step.progress)
    }
    if (step.age >= 0) Object.assign(attempt, { first: true, received: performance.now() - step.age })
    let reply
    switch (step.step) {
      case 'START':
        reply = this.counter.start({ ...attempt, fence: step.fence }, step.mode, step.limit)
        break
      case 'BEGUN':
        reply = this.counter.begun(attempt)
        break
      case 'FAIL':
        reply = this.counter.fail(attempt, {
          limit: step.limit, wait: step.wait, cause: step.cause, reason: bytes(step.reason), ran: step.ran,
          atMost: step.at_most
        })
        break
      case 'END':
        assert.equal(step.keep, 600_000, 'this client has one keep')
        reply = this.counter.end(attempt, step.succeeded)
        break
      case 'ASK':
        return assert.equal(
          (await this.counter.askBreaker('/', 'orders', attempt.progress, step.wants)).permitted,
          step.reply === 1
        )
      case 'CONTROL':
        return this.compareControl(
          await this.counter.control('/', 'orders', { token: step.reader, consumer: step.consumer, state: step.state }),
          step.reply
        )
      default:
        throw new Error(`unknown step ${step.step}`)
    }
    if (step.reply.error !== undefined) {
      const err = await reply.then(() => undefined, (e) => e)
      assert.ok(err?.cause?.message.includes(step.reply.error), String(err))
      return undefined
    }
    return this.compareReply(await reply, step.reply)
  }

  async compareReply(got, want) {
    only(want, 'code', 'failures', 'crashes', 'limit', 'fence', 'wait', 'cause', 'reason', 'double')
    for (const name of ['code', 'failures', 'crashes', 'limit']) assert.equal(got[name], want[name], name)
    assert.equal(got.possibleDuplicate, want.double, 'double')
    assert.equal(got.cause, want.cause ?? '')
    assert.equal(got.reason, want.reason === null ? '' : bytes(want.reason).toString())
    const now = await micros()
    this.compareFence(got.fence, want.fence, now)
    this.runsDown(got.wait, want.wait, now, 'wait')
  }

  compareFence(got, want, now) {
    if (typeof want === 'number') return assert.equal(got, want, 'fence')
    const n = Number(/^clock (\d+)$/.exec(want)[1])
    if (this.clocks[n] !== undefined) return assert.equal(got, this.clocks[n], want)
    assert.ok(got >= this.begin && got <= now, `${want}: ${got} is not from ${this.begin} to ${now}`)
    assert.ok(!(this.clocks[n - 1] >= got), `${want}: not greater`)
    this.clocks[n] = got
  }

  runsDown(got, want, now, name) {
    const passed = Math.ceil((now - this.begin) / 1000) + 1
    assert.ok(
      want === 0 ? got === 0 : got <= want && got >= want - passed,
      `${name}: ${got}, want ${want} and at most ${passed} less`
    )
  }

  /** A time that the store keeps. */
  isTime(got, want, now, name) {
    if (want === null) return assert.ok(!got, `${name}: ${got}`)
    const least = this.ms() + want
    assert.ok(
      got >= least && got <= least + Math.ceil((now - this.begin) / 1000),
      `${name}: ${got - this.ms()}, want ${want}`
    )
  }

  async compareControl(got, want) {
    only(want, 'paused', 'by', 'at', 'why', 'skips')
    assert.deepEqual(
      [got.paused, got.by, got.why, [...got.skips].sort()],
      [want.paused, want.by, want.why, want.skips.map((s) => member(bytes(s.id), bytes(s.generation))).sort()]
    )
    this.isTime(got.at, want.at, await micros(), 'at')
  }

  async compare({ records, tombstones, breaker, ...rest }) {
    only(rest)
    if (breaker) await this.compareBreaker(breaker)
    const listed = new Set()
    for (const r of records) {
      const { of } = this.message(r)
      listed.add(of.record)
      await this.compareRecord(of, r)
    }
    for (const record of this.messages.keys())
      if (!listed.has(record)) assert.equal(await redis.exists(record), 0, `${record} is left`)
    if (!tombstones) return
    const { tombstones: key } = keys({ vhost: '/', queue: 'orders', id: 'm1' }, this.prefix)
    for (const [name, want] of Object.entries(tombstones)) assert.equal(Number(await redis.hget(key, name)), want, name)
  }

  async compareBreaker(want) {
    const got = await redis.get(this.breakerKey())
    const now = await micros()
    const [line] = got.split('\n')
    const numbers = line.split(' ').slice(0, 8).map(Number)
    const fields = { ...want, streak: (want.streak ?? []).map((f) => ({ ...f })) }
    BREAKER.forEach((name, i) => {
      if (name === 'permits') return
      const least = name === 'success' ? want.success + this.ms() : 0 // a client measures its age
      this.isTime(numbers[i] < least && numbers[i] >= least - 100 ? least : numbers[i], want[name] ?? null, now, name)
      fields[name] = numbers[i] === 0 ? null : numbers[i] - this.ms()
    })
    const times = line.split(';').slice(1).map((entry) => Number.parseInt(entry, 10))
    assert.equal(times.length, fields.streak.length, line)
    fields.streak.forEach((f, i) => {
      this.isTime(times[i], f.at, now, 'at of the streak')
      f.at = times[i] - this.ms()
    })
    assert.equal(got, breakerText(fields, this.ms()))
  }

  async compareRecord(of, { string, type, ttl, set = null, ...fields }) {
    if (type !== undefined) return assert.equal(await redis.type(of.record), type)
    const text = await redis.getBuffer(of.record)
    if (string !== undefined) return assert.deepEqual(text, bytes(string))
    const want = filled(fields)
    const got = read(text)
    const now = await micros()
    for (const name of ['binds', 'due', 'first', 'last', 'since', 'listed']) {
      this.isTime(got[name], want[name], now, name)
      got[name] = want[name]
    }
    if (got.moved) {
      this.isTime(got.moved.until, want.moved?.until ?? null, now, 'until')
      got.moved.until = want.moved?.until ?? null
    }
    got.notes.forEach((n, i) => {
      this.isTime(n.at, want.notes[i]?.at, now, 'at of a note')
      n.at = want.notes[i]?.at
    })
    const passed = Math.ceil((now - this.begin) / 1000)
    got.history.forEach((h, i) => {
      const least = want.history[i]?.after
      assert.ok(h.after >= least && h.after <= least + passed, `after: ${h.after}, want ${least}`)
      h.after = least
    })
    this.compareFence(got.fence, want.fence, now)
    got.fence = want.fence
    assert.deepEqual(got, want)
    this.runsDown(await redis.pttl(of.record), ttl, await micros(), 'ttl')
    const name = of.record.slice(of.index.length - 'index'.length + 2)
    const has = async (key) => await redis.type(key) === 'zset' && await redis.zscore(key, name) !== null
    assert.equal(await has(of.index) ? 'index' : await has(of.dead) ? 'dead' : null, set, 'set')
  }
}

const BREAKER = ['success', 'doubt', 'open', 'closed', 'next', 'permits', 'count', 'awaited']

/** Writes the breaker of a queue. */
function breakerText({ streak = [], reason = '', alike = 0, permits = 0, ...times }, begin) {
  for (const name of Object.keys(times)) assert.ok(BREAKER.includes(name), name)
  const numbers = BREAKER.map((name) =>
    name === 'permits' ? permits : times[name] === undefined || times[name] === null ? 0 : times[name] + begin
  )
  const failed = streak.map((f) => `;${f.at + begin}=${createHash('sha256').update(f.id).digest('hex').slice(0, 16)}`)
  return `${[...numbers, alike].join(' ')} .${failed.join('')}\n${reason}`
}

/** The progress that a step of a case has as a text. */
function progressOf(text) {
  const [breaker, patience, ...rest] = text.split(' ').slice(1).map(Number)
  const [began, ended, attempt] = rest.map((age) => age < 0 ? undefined : performance.now() - age)
  return { breaker, patience, began, ended, attempt, failing: rest[3] === 1 }
}

test('steps', async (t) => {
  for (const c of cases('steps')) {
    if (c.operators || c.moves) continue // this client has no operators' side and moves no message
    await t.test(c.name, () => {
      only(c, 'name', 'why', 'operators', 'breaker', 'ttl', 'given', 'steps', 'after')
      return new Run(c).run()
    })
  }
})
