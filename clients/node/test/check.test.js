// The check of the dead-letter route, with a broker that does not answer.
import assert from 'node:assert/strict'
import test from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { checkRoute } from '../src/check.js'

const never = () => new Promise(() => {})
const facts = { type: 'classic', args: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'dead' } }

for (const [name, channel, want] of [
  ['a queue that does not answer', { checkQueue: never }, /its node is down/],
  ['a queue that answers', { checkQueue: async () => {} }, undefined],
  ['a broker that does not answer', undefined, 'opening a channel: no answer within 10000 ms']
]) {
  test(`the route to ${name}`, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const model = { createChannel: channel ? async () => ({ ...channel, on () {}, close: async () => {} }) : never }
    const checked = checkRoute(model, 'q', facts).then((broken) => broken?.message, (err) => ({ thrown: err.message }))
    for (let i = 0; i < 10; i++) {
      await setImmediate()
      t.mock.timers.tick(1000)
    }
    const got = await checked
    if (want instanceof RegExp) assert.match(got, want)
    else assert.deepEqual(got, want && { thrown: want })
  })
}
