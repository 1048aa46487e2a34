import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageHeaders, nameFor, readHeaders } from '../src/generation.js'
import { encodeTable, readTable } from '../src/properties.js'

const NOON = 1_700_000_000
const at = (value) => ({ '!': 'timestamp', value })
const death = (queue, reason, count, time) => ({
  queue, reason, count, time: at(time), exchange: 'x', 'routing-keys': ['k', 'l']
})

const ID = Buffer.from('m1')
const NONE = Buffer.alloc(0)
const read = (headers) => new MessageHeaders(readHeaders(headers), 'q', ID, NONE)

/** Headers as they were written for message m1 of queue q. */
function written(headers) {
  if (!headers) return headers
  const begun = headers['x-strikes-generation']
  const name = nameFor(Buffer.from('q'), ID, Buffer.from(typeof begun === 'string' ? begun : ''), NONE)
  return Object.assign(headers, { 'x-strikes-for': name.toString() })
}

const table = [
  ['no headers', undefined, ''],
  ['other headers', { x: 'y' }, ''],
  ['rejected here', { 'x-death': [death('q', 'rejected', 1, NOON)] }, '1@1700000000'],
  ['past the delivery limit here', { 'x-death': [death('q', 'delivery_limit', 2, NOON)] }, '2@1700000000'],
  ['expired here', { 'x-death': [death('q', 'expired', 1, NOON)] }, ''],
  ['rejected elsewhere', { 'x-death': [death('bills', 'rejected', 1, NOON)] }, ''],
  [
    'the newest of several',
    {
      'x-death': [
        death('q.dlq', 'expired', 9, NOON), death('q', 'rejected', 3, NOON + 1), death('q', 'delivery_limit', 1, NOON)
      ]
    },
    '3@1700000001'
  ],
  ['the header of a replay', { 'x-strikes-generation': 'r1' }, 'header:r1'],
  [
    'dead again since the replay', { 'x-strikes-generation': 'r1', 'x-death': [death('q', 'rejected', 1, NOON)] },
    '1@1700000000 header:r1'
  ],
  ['an empty header', { 'x-strikes-generation': '' }, ''],
  ['a header that is no text', { 'x-strikes-generation': 1 }, ''],
  ['x-death that is no list', { 'x-death': 'yesterday' }, ''],
  ['x-death of no tables', { 'x-death': ['a', null, 1] }, ''],
  ['x-death without fields', { 'x-death': [{}] }, ''],
  ['a death without a time', { 'x-death': [{ queue: 'q', reason: 'rejected', count: 'many', time: 'late' }] }, ''],
  ['a header of the prototype', Object.create({ 'x-strikes-generation': 'r1' }), ''],
]

test('the generation of headers', () => {
  for (const [name, headers, want] of table) assert.equal(read(written(headers)).generation.toString(), want, name)
})

test('whole numbers of every type are counts', () => {
  const entry = (type, count) =>
    Buffer.concat([
      encodeTable({ queue: 'q', reason: 'rejected', time: at(NOON) }), Buffer.from([5]), Buffer.from('count' + type),
      count
    ])
  const headers = (type, count) => new Map([['x-death', { type: 'A', bytes: inArray(entry(type, count)) }]])
  const want = { l: '7@', I: '7@', s: '7@', b: '7@', B: '7@', u: '7@', i: '7@', t: '0@' }
  const size = { l: 8, I: 4, s: 2, b: 1, B: 1, u: 2, i: 4, t: 1 }
  for (const type of Object.keys(want)) {
    const count = Buffer.alloc(size[type])
    count[count.length - 1] = 7
    const read = new MessageHeaders(headers(type, count), 'q', ID, NONE)
    assert.equal(read.generation.toString(), want[type] + NOON, type)
  }
})

function inArray(fields) {
  const size = Buffer.alloc(4)
  size.writeUInt32BE(fields.length)
  return Buffer.concat([Buffer.from('F'), size, fields])
}

test('a header that amqplib could not decode is refused, unless its bytes are there', () => {
  assert.throws(() => read({ 'x-strikes-generation': 'a\uFFFD' }), /not UTF-8/)
  const begun = Buffer.from([0x61, 0xFF])
  const name = nameFor(Buffer.from('q'), ID, begun, NONE)
  const text = (key, value) => {
    return Buffer.concat([
      Buffer.from([key.length]), Buffer.from(key), Buffer.from([0x53, 0, 0, 0, value.length]), value
    ])
  }
  const bytes = Buffer.concat([text('x-strikes-generation', begun), text('x-strikes-for', name)])
  assert.deepEqual(read(bytes).generation, Buffer.concat([Buffer.from('header:'), begun]))
})

test('the fence that a message carries', () => {
  const fence = (headers) => read(written(headers)).fence
  assert.equal(fence({}), 0)
  assert.equal(fence({ 'x-strikes-fence': 12 }), 12)
  assert.equal(fence({ 'x-strikes-fence': 1.5 }), 0)
  assert.equal(fence({ 'x-strikes-fence': -1 }), 0)
  assert.equal(fence({ 'x-strikes-fence': 2 ** 52 + 1 }), 0)
  assert.equal(fence({ 'x-strikes-fence': '12' }), 0)
  assert.equal(fence({ 'x-death': [death('q', 'rejected', 1, NOON)] }), (NOON + 1) * 1e6)
  assert.equal(fence({ 'x-strikes-fence': 2e15, 'x-death': [death('q', 'rejected', 1, NOON)] }), 2e15)
})

test('headers of another message count as absent', () => {
  const theirs = written({
    'x-strikes-generation': 'r1', 'x-strikes-fence': 12, 'x-strikes-copy': 1, 'x-strikes-replay': { reason: '\uFFFD' },
  })
  const of = (queue, id, headers = theirs) => {
    const h = new MessageHeaders(readHeaders(headers), queue, Buffer.from(id), NONE)
    return [h.foreign, h.generation.toString(), h.fence, h.copyNumber]
  }
  assert.deepEqual(of('q', 'm1'), [false, 'header:r1', 12, 1])
  assert.deepEqual(of('q', 'm2'), [true, '', 0, 0])
  assert.deepEqual(of('bills', 'm1'), [true, '', 0, 0])
  for (const name of ['\uFFFD', 7, null, undefined]) {
    assert.deepEqual(of('q', 'm1', { ...theirs, 'x-strikes-for': name }), [true, '', 0, 0])
  }
})

test('malformed tables', () => {
  for (const bytes of [
    [3, 97], [1, 97, 0x51], [1, 97, 0x53, 0, 0, 1, 0], [1, 97, 0x6c, 1]
  ])
    assert.throws(() => readTable(Buffer.from(bytes)), RangeError)
})
