// The check of a queue: its dead-letter route, with a broker that does not answer, and its delivery limit.
import assert from 'node:assert/strict'
import test from 'node:test'
import { checkRoute, judge } from '../src/check.js'
import { Clock } from './clock.js'

const never = () => new Promise(() => {})
const facts = { type: 'classic', args: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'dead' } }

for (const [name, channel, want] of [
  ['a queue that does not answer', { checkQueue: never }, /its node is down/],
  ['a queue that answers', { checkQueue: async () => {} }, undefined],
  ['a broker that does not answer', undefined, 'opening a channel: no answer within 10000 ms']
]) {
  test(`the route to ${name}`, async (t) => {
    const clock = new Clock()
    clock.install()
    t.after(() => clock.restore())
    const model = { createChannel: channel ? async () => ({ ...channel, on () {}, close: async () => {} }) : never }
    const checked = checkRoute(model, 'q', facts).then((broken) => broken?.message, (err) => ({ thrown: err.message }))
    await clock.advance(10_000)
    const got = await checked
    if (want instanceof RegExp) assert.match(got, want)
    else assert.deepEqual(got, want && { thrown: want })
  })
}

for (const [version, limit, refused] of [
  [310, 2, true], [310, 6, true], [310, 7, false], [400, 6, true], [403, 7, false], [403, undefined, false],
  [0, 2, false]
]) {
  test(`a delivery limit ${limit} for 3 retries on version ${version}`, () => {
    const args = { 'x-dead-letter-exchange': 'dlx', 'x-delivery-limit': limit }
    const wrong = judge({ type: 'quorum', args, unread: undefined }, version, { maxRetries: 3, allowDrop: false })
    assert.equal(wrong.includes(`delivery limit ${limit} is too low for 3 retries`), refused)
  })
}
