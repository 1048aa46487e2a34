import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as d from '../src/decide.js'
import { defaultBackoff, doubled } from '../src/backoff.js'
import { steering, notCounted, reject, retryAfter, retryAtMost } from '../src/steer.js'

test('a new attempt', () => {
  for (const [hasID, first, want] of [
    [true, true, 'run'], [true, false, 'start'], [false, true, 'run'], [false, false, 'dead-letter']
  ]) {
    assert.equal(d.decideReceived(hasID, first), want, `${hasID} ${first}`)
  }
})

test('the verdicts', () => {
  for (const [code, started, failed] of [
    ['RUN', 'run', undefined], ['WAIT', 'wait', undefined], ['SUSPECT', 'isolate', undefined],
    ['EXHAUSTED', 'dead-letter', 'dead-letter'], ['REQUEUE', undefined, 'wait'],
    ['SUPERSEDED', 'superseded', 'superseded'], ['MOVE', undefined, undefined], ['ENDED', undefined, undefined],
    ['', undefined, undefined]
  ])
    assert.deepEqual([d.decideStarted(code), d.decideFailed(code)], [started, failed], code)
})

test('the end of a handler', () => {
  const ended = { ok: false, rejected: false, stopped: false, hasID: true, open: false }
  for (const [more, want] of [
    [{ ok: true }, 'ack'], [{ ok: true, open: true }, 'end'], [{ ok: true, stopped: true, open: true }, 'end'],
    [{}, 'fail'], [{ stopped: true }, 'leave'], [{ stopped: true, rejected: true }, 'fail'],
    [{ uncounted: true, hasID: false }, 'uncount'], [{ uncounted: true, stopped: true }, 'leave'],
    [{ uncounted: true, rejected: true }, 'fail'], [{ hasID: false }, 'dead-letter'],
    [{ hasID: false, stopped: true }, 'leave']
  ])
    assert.equal(d.decideEnded({ ...ended, ...more }), want, JSON.stringify(more))
})

test('outages, waits and stops', () => {
  assert.equal(d.decideOutage('fail', true, 1, 100), 'dead-letter')
  assert.equal(d.decideOutage('fail', false, 1, 100), 'fail')
  assert.equal(d.decideOutage('fail', false, 101, 100), 'give-up')
  assert.equal(d.decideOutage('end', false, 101, 100), 'ack')
  assert.equal(d.decideOutage('start', true, 101, 100), 'give-up')
  assert.deepEqual(d.decideWait(5, 10, 'requeue'), { wait: 5, next: 'requeue' })
  assert.deepEqual(d.decideWait(11, 10, 'requeue'), { wait: 10, next: 'overdue' })
  assert.deepEqual(d.decideWait(-1, -2, 'start'), { wait: 0, next: 'overdue' })
  assert.equal(d.decideStopped('end'), 'ack')
  assert.equal(d.decideStopped('requeue'), 'leave')
  assert.equal(d.decideUnstarted('isolate', true), 'retract')
  assert.equal(d.decideUnstarted('isolate', false), 'isolate')
  assert.equal(d.decideUnstarted('start', true), 'start')
  assert.equal(d.decideOverdue(true), 'give-up')
  assert.equal(d.decideOverdue(false), 'requeue')
  assert.equal(d.decideMode(0), 'isolated')
  assert.equal(d.decideMode(1), 'beside-abandoned')
  assert.equal(d.decideRetry('in-place'), 'again')
  assert.equal(d.decideRetry('requeue'), 'requeue')
})

test('the default backoff', () => {
  assert.deepEqual([1, 2, 3, 9, 10, 1000].map((n) => doubled(100, 30_000, n)), [100, 200, 400, 25_600, 30_000, 30_000])
  for (let n = 0; n < 100; n++) {
    const ms = defaultBackoff(3)
    assert.ok(ms >= 200 && ms <= 400, String(ms))
  }
})

test('what an error asks for', () => {
  const none = { rejected: false, uncounted: false, wait: undefined, retries: undefined }
  assert.deepEqual(steering(new Error('x')), none)
  assert.deepEqual(steering(reject('no')), { ...none, rejected: true })
  assert.deepEqual(steering(new Error('x', { cause: retryAfter(new Error('y'), -5) })), { ...none, wait: 0 })
  assert.deepEqual(steering(reject(retryAfter(new Error('y'), 7))), { ...none, rejected: true, wait: 7 })
  assert.deepEqual(steering(null), none)
  const loop = new Error('x')
  loop.cause = loop
  assert.deepEqual(steering(loop), none)
  assert.deepEqual(steering({ get cause() { throw new Error('a trap') } }), none)
  assert.throws(() => retryAfter(new Error('x'), NaN), /ms must be a number/)
  assert.deepEqual(steering(retryAtMost(retryAfter(new Error('y'), 7), 2)), { ...none, wait: 7, retries: 2 })
  assert.deepEqual(steering(retryAfter(notCounted('y'), 7)), { ...none, uncounted: true, wait: 7 })
  assert.equal(steering(retryAtMost(retryAtMost('y', 1), 2)).retries, 1)
  assert.equal(steering(retryAtMost(retryAtMost('y', 3), -2.5)).retries, 0)
  assert.throws(() => retryAtMost(new Error('x'), undefined), /n must be a number/)
  const all = new AggregateError([new Error('x'), retryAfter('y', 7), new Error('z', { cause: notCounted('w') })])
  assert.deepEqual(steering(all), { ...none, uncounted: true, wait: 7 }) // such as Promise.any throws
})
