// Plays a case of conduct.json: a consumer on a fake connection, a fake store and a clock that the test advances.
// No pause between repetitions is shortened at random.
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { chance } from '../src/backoff.js'
import { Breaker } from '../src/breaker.js'
import { Consumer } from '../src/consumer.js'
import { ControlReader } from '../src/control.js'
import { RefusedError, StoreError } from '../src/errors.js'
import { Isolation } from '../src/isolation.js'
import { member } from '../src/key.js'
import { Late } from '../src/late.js'
import { RAW } from '../src/properties.js'
import { notCounted, reject, retryAfter, retryAtMost } from '../src/steer.js'
import { Stop } from '../src/wait.js'
import { Clock } from './clock.js'
import { properties } from './spec-amqp.js'

const silent = { info() {}, warn() {}, error() {} }

/** Refuses a field that this runner does not know. */
function only(object, ...names) {
  for (const name of Object.keys(object)) assert.ok(names.includes(name), `unknown field ${name}`)
}

export class World {
  /** If late is true, deliveries that are ready at the same instant go on before the breaker is read. */
  constructor(c, late = false) {
    this.late = late
    only(
      c, 'name', 'why', 'breaker', 'settings', 'deliveries', 'handlers', 'replies', 'outages', 'events', 'until',
      'trace'
    )
    this.c = c
    this.clock = new Clock()
    this.trace = []
    this.failed = new Set() // ids whose last step got no reply
    this.sent = new Map() // how often a step of a message was sent
    this.calls = new Map()
    this.tokens = new Map()
    this.skips = new Set()
    this.fetched = false
    this.beyond = []
    this.lost = false
    this.closed = false
    this.paused = Boolean(c.settings?.paused)
    this.sessions = 0
    this.state = { success: 0, doubt: 0, open: 0 }
    this.permits = (c.events ?? []).filter((e) => e.event === 'permit').map((e) => e.at)
  }

  note(id, what, fields = {}) {
    const entry = { ...(id !== undefined && { id }), do: what }
    for (const [name, value] of Object.entries(fields))
      if (
        (value !== 0 && value !== false && value !== '' && value !== undefined) ||
        name === 'limit' ||
        name === 'wait'
      )
        entry[name] = value
    this.trace.push({ at: this.clock.time, entry })
  }

  token(id, token) {
    const known = this.tokens.get(id) ?? []
    this.tokens.set(id, known)
    if (!known.includes(token)) known.push(token)
    return known.indexOf(token) + 1
  }

  // The store.

  step(a, name, fields, timeout = 1000) {
    const id = a.id.toString()
    const entry = { id, do: name, token: this.token(id, a.token) }
    for (const [key, value] of Object.entries({ generation: String(a.generation), ...fields })) {
      if (value !== 0 && value !== false && value !== '' || key === 'limit' || key === 'wait') entry[key] = value
    }
    const before = this.trace.filter((t) => t.entry.id === id).at(-1)
    const timeless = ({ repeated, progress, ...same }) => JSON.stringify(same)
    if (this.failed.has(id) && timeless(before?.entry ?? {}) === timeless(entry)) before.entry.repeated = true
    else this.trace.push({ at: this.clock.time, entry })
    const reply = this.reply(id, name)
    this.failed.delete(id)
    if (typeof reply === 'object') {
      return Promise.resolve({
        failures: 0, crashes: 0, limit: 0, fence: 0, wait: 0, cause: '', reason: '', possibleDuplicate: false, ...reply
      })
    }
    this.failed.add(id)
    if (reply === 'down') return Promise.reject(new StoreError('unreachable', 'down'))
    if (reply === 'refused') return Promise.reject(new StoreError('foreign', 'refused'))
    return new Promise((_, fail) => setTimeout(() => fail(new StoreError('slow', 'lost')), timeout))
  }

  reply(id, name) {
    for (const o of this.c.outages ?? []) {
      only(o, 'from', 'to', 'steps', 'kind')
      if (this.clock.time >= o.from && this.clock.time < o.to && (!o.steps || o.steps.includes(name))) return o.kind
    }
    const script = this.c.replies?.[id]?.[name]
    if (!script) {
      assert.ok(name === 'END' || name === 'BEGUN', `${name} of ${id} has no reply`)
      return { code: name === 'END' ? 'ENDED' : 'BEGUN' }
    }
    const n = this.sent.get(id + name) ?? 0
    this.sent.set(id + name, n + 1)
    return script[Math.min(n, script.length - 1)]
  }

  counter() {
    return {
      start: (a, mode, limit, o) =>
        this.step(
          a,
          'START',
          {
            mode, first: Boolean(a.first), fence: a.fence ?? 0, limit, max_age: a.maxAge, delay: a.delay,
            progress: a.progress && { ...a.progress, attempt: undefined }
          },
          o?.timeout
        ),
      begun: (a, o) => this.step(a, 'BEGUN', {}, o?.timeout),
      fail: (a, f, o) =>
        this.step(
          a,
          'FAIL',
          {
            first: Boolean(a.first), limit: f.limit, wait: f.wait, cause: f.cause, reason: f.reason, max_age: a.maxAge,
            at_most: f.atMost, delay: a.delay, progress: a.progress
          },
          o?.timeout
        ),
      end: (a, succeeded, o) => this.step(a, 'END', { succeeded }, o?.timeout),
      control: async () => ({ paused: this.paused, by: '', why: '', at: 0, skips: new Set(this.skips) }),
      askBreaker: (_vhost, _queue, _progress, wants) => this.ask(wants),
      blockedLanes: async () => this.c.settings?.blocked_lanes ?? 0,
    }
  }

  /** The breaker of the case's events. Of the permits that are due it gives one. */
  ask(wants) {
    const { time } = this.clock
    const kind = (this.c.outages ?? []).find(
      (o) => time >= o.from && time < o.to && (!o.steps || o.steps.includes('ASK'))
    )?.kind
    if (kind)
      return new Promise((_, fail) => setTimeout(() => fail(new StoreError('slow', kind)), kind === 'lost' ? 500 : 0))
    const permitted = wants && this.state.open > 0 && this.permits[0] <= time
    while (permitted && this.permits[0] <= time) this.permits.shift()
    const reply = {
      permitted, now: time, ...this.state, next: this.permits[0] ?? time + 3000, count: 0, failed: 0, reason: ''
    }
    return new Promise((resolve) => { this.late ? setTimeout(() => resolve(reply), 0) : resolve(reply) })
  }

  // The broker.

  model() {
    const model = new EventEmitter()
    model.close = async () => {}
    model.createChannel = async () => {
      if (this.sessions++ > 0 || this.c.settings?.paused) this.note(undefined, 'consume')
      this.closed = false
      this.channel = new EventEmitter()
      const settle = (what) => (m) => {
        if (this.lost || this.closed) throw new Error('Channel closed')
        this.note(m.id, what)
      }
      const requeue = settle('requeue')
      const deadLetter = settle('dead-letter')
      return Object.assign(this.channel, {
        prefetch: async () => {},
        consume: async (_queue, receive) => {
          if (this.receive && this.channel.consumes) {
            this.note(undefined, 'fetch')
            this.fetched = true
            for (const deliver of this.beyond.splice(0)) deliver()
            return
          }
          this.channel.consumes = true
          this.receive = receive
        },
        cancel: async () => {},
        ack: settle('ack'),
        nack: (m, _all, back) => back ? requeue(m) : deadLetter(m),
        close: async () => {
          if (this.lost) throw new Error('Channel closed')
          if (!this.closed) this.note(undefined, 'close')
          this.closed = true
        },
      })
    }
    return model
  }

  deliver(d, tag) {
    if (d.beyond && !this.fetched) return this.beyond.push(() => this.deliver(d, tag))
    only(d, 'at', 'beyond', 'id', 'no_id', 'redelivered', 'headers', 'body', 'timestamp')
    const id = d.no_id ? '' : d.id
    this.receive?.({
      id: d.id, fields: { redelivered: Boolean(d.redelivered), deliveryTag: tag },
      properties: { [RAW]: properties(d.headers, id), timestamp: d.timestamp }, content: Buffer.from(d.body ?? '')
    })
  }

  handle(m, attempt) {
    const n = this.calls.get(m.id) ?? 0
    this.calls.set(m.id, n + 1)
    const script = this.c.handlers[m.id]
    const what = script[Math.min(n, script.length - 1)]
    only(what, 'takes', 'ok', 'fail', 'reject', 'retry_after', 'retry_at_most', 'not_counted', 'deaf')
    const noID = this.c.deliveries.some((d) => d.id === m.id && d.no_id)
    this.note(m.id, 'handler', {
      token: noID ? 0 : this.token(m.id, attempt.token), number: attempt.number, last: attempt.last,
      fence: attempt.fence
    })
    return new Promise((resolve, fail) => {
      const end = () => {
        if (what.ok) return resolve()
        if (what.reject !== undefined) return fail(reject(new Error(what.reject)))
        let err = new Error(what.fail ?? what.not_counted)
        if (what.not_counted !== undefined) err = notCounted(err)
        if (what.retry_at_most !== undefined) err = retryAtMost(err, what.retry_at_most)
        return fail(what.retry_after === undefined ? err : retryAfter(err, what.retry_after))
      }
      if (!what.deaf) attempt.signal.addEventListener('abort', () => fail(new Error('cancelled')))
      if (attempt.signal.aborted && !what.deaf) fail(new Error('cancelled'))
      if (what.takes) setTimeout(end, what.takes)
      else end()
    })
  }

  event(e, stop, model) {
    only(e, 'at', 'event', 'id')
    if (e.event in BREAKER) {
      for (const [name, now] of Object.entries(BREAKER[e.event])) this.state[name] = now ? this.clock.time : 0
      return
    }
    this.note(e.id, e.event)
    switch (e.event) {
      case 'stop': return stop.end()
      case 'cancel': return this.receive(null)
      case 'pause': return this.paused = true
      case 'resume': return this.paused = false
      case 'skip': return this.skips.add(member(e.id, ''))
      case 'lose':
        this.lost = true
        this.channel.emit('close')
        return model.emit('close')
      default: throw new Error(`unknown event ${e.event}`)
    }
  }

  async run() {
    const {
      max_retries = 3, max_age = 0, retry = 'requeue', isolation = 'suspects', backoff = 1000,
      handler_timeout = 300_000, consumer_timeout = 1_800_000, concurrency = 1, drain = 0, reconnected = false, paused,
      blocked_lanes, breaker: size = 0, patience = 0, ...rest
    } = this.c.settings ?? {}
    only(rest)
    const drawn = chance.draw
    chance.draw = () => 0
    this.clock.install()
    try {
      const counter = this.counter()
      const model = this.model()
      const consumer = new Consumer({
        connect: async () => model, queue: 'orders', counter, maxRetries: max_retries, maxAge: max_age, retry,
        isolation, backoff: () => backoff, handlerTimeout: handler_timeout, consumerTimeout: consumer_timeout,
        logger: silent, check: false, handler: (m, attempt) => this.handle(m, attempt), concurrency, prefetch: 20,
        drainTimeout: drain
      })
      const stop = new Stop()
      const breaker = size > 0 ? new Breaker({ breaker: size, patience }, consumer.settings) : undefined
      breaker?.run()
      consumer
        .onConnection({
          breaker, stop, late: new Late(), control: new ControlReader(counter, consumer.settings),
          isolation: new Isolation(), consumed: false, careful: false, first: !reconnected, denials: 0,
          serving: false, failed: -Infinity
        })
        .catch((err) => {
          if (err instanceof RefusedError) this.note(undefined, 'refuse')
        })
      await this.clock.settle()
      this.c.deliveries.forEach((d, i) => setTimeoutAt(this.clock, d.at, () => this.deliver(d, i + 1)))
      for (const e of this.c.events ?? []) setTimeoutAt(this.clock, e.at, () => this.event(e, stop, model))
      await this.clock.advance(this.c.until)
    } finally {
      this.clock.restore()
      chance.draw = drawn
    }
    this.compare()
  }

  compare() {
    const of = (entries, id) => entries.filter((e) => e.id === id)
    const got = this.trace.map((t) => t.entry)
    for (const id of new Set([...got, ...this.c.trace].map((e) => e.id))) {
      const want = of(this.c.trace, id)
      const mine = this.trace.filter((t) => t.entry.id === id)
      want.forEach(({ progress }, i) =>
        assert.ok(
          like(progress, mine[i]?.entry.progress),
          `${id}: entry ${i} has the progress ${JSON.stringify(mine[i]?.entry.progress)}`
        )
      )
      const plain = want.map(({ from, to, progress, ...e }) =>
        e.cause === 'timed-out' ? { ...e, reason: undefined } : e
      )
      const shown = mine.map(({ entry: { progress, ...entry } }) =>
        entry.cause === 'timed-out' ? { ...entry, reason: undefined } : entry
      )
      assert.deepEqual(shown, plain, id)
      want.forEach(({ from = 0, to = Infinity, ...e }, i) => {
        assert.ok(
          mine[i].at >= from && mine[i].at <= to,
          `${e.do} of ${id} came at ${mine[i].at}, want ${from} to ${to}`
        )
      })
    }
  }
}

/** Events that are not in the trace, each with the reply of ASK after it. */
const BREAKER = {
  doubt: { doubt: true }, opened: { open: true }, closed: { doubt: false, open: false }, others: { success: true },
  permit: {}
}

/** Whether a progress is as expected. A time that is absent is not compared; -1000 stands for none. */
function like(want, got) {
  if (!want || !got) return want === got
  const near = (name) => want[name] === undefined || Math.abs(want[name] - (got[name] ?? -1000)) <= 200
  return (
    want.breaker === got.breaker &&
    (want.patience ?? 0) === got.patience &&
    Boolean(want.failing) === got.failing &&
    ['began', 'ended', 'attempt'].every(near)
  )
}

function setTimeoutAt(clock, at, f) {
  clock.timers.set({}, { f, at })
}
