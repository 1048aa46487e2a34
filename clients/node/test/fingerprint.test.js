import assert from 'node:assert/strict'
import { test } from 'node:test'
import { identify } from '../src/delivery.js'
import { fingerprintOf } from '../src/fingerprint.js'

test('fingerprints are those of the strikes command', () => {
  const of = (messageId, correlationId, type, body) =>
    fingerprintOf({ properties: { messageId, correlationId, type }, content: Buffer.from(body, 'latin1') })
  assert.equal(of(undefined, undefined, undefined, ''), 'fp:799c55d702ef')
  assert.equal(of(undefined, undefined, undefined, 'body'), 'fp:988fabf2e575')
  assert.equal(of('', 'corr', 'order.created', '{"a":1}'), 'fp:b70c9d7a5d25')
  assert.equal(of('', 'a<b>&"\\', '\u2028\u00e9\x01\b\f\n\x7f', ''), 'fp:e63b548a4c06')
  assert.equal(of('k1', undefined, undefined, 'x\xff'), 'fp:296188286aa4')
})

test('without the bytes of its properties, an id that is not UTF-8 counts as none', () => {
  const { id, unclear } = identify({ properties: { messageId: 'a\uFFFDb', headers: {} } })
  assert.deepEqual([id.length, unclear], [0, true])
  assert.equal(identify({ properties: { messageId: 'ab', headers: {} } }).id.toString(), 'ab')
})
