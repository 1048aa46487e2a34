import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cut } from '../src/bytes.js'
import { encode, keys, member } from '../src/key.js'
import { parseRecord } from '../src/record.js'
import { parseReply } from '../src/reply.js'

test('keys', () => {
  assert.equal(encode('a/b {}:%é'), 'a%2Fb%20%7B%7D%3A%25%C3%A9')
  const k = keys({ vhost: '/', queue: 'orders', id: 'test' })
  assert.equal(k.record, 'strikes:1:{%2F/orders}:r:9f86d081884c7d659a2feaa0c55ad015:0')
  assert.equal(k.override, 'strikes:1:{%2F/orders}:limit')
  assert.equal(member('test', '1@1700000000'), '9f86d081884c7d659a2feaa0c55ad015:eb42c34917a86858')
  assert.equal(member(Buffer.from('test'), ''), member('test', ''))
  assert.notEqual(member(Buffer.from([0xFF]), ''), member('\uFFFD', ''))
})

test('texts are cut at bytes, between characters', () => {
  assert.equal(cut('aé', 2).toString(), 'a')
  assert.equal(cut('aé', 3).toString(), 'aé')
  assert.equal(cut('é'.repeat(600), 1024).length, 1024)
  assert.equal(cut('€'.repeat(600), 1024).length, 1023)
  assert.equal(cut('a😀', 4).toString(), 'a')
  assert.deepEqual(cut(Buffer.from([0xFF, 0xFE, 0xFD]), 2), Buffer.from([0xFF, 0xFE]))
  assert.equal(cut(Buffer.alloc(2000, 0x80), 1024).length, 1024)
  assert.equal(cut(Buffer.alloc(3, 0x80), 1).length, 1)
})

test('a record', () => {
  const r = parseRecord(
    Buffer.from(
      '1 0 2 55 0 . 0 1700000030000 30000 1700000000000 5 failed t2 shared 9 8 4 1 1 .;aB3_-x9=f;e1=e 2 3 6 0 ' +
      '18\nm1@@@host 1\nf0\t12\thost 1\tboomboom\nat line 3'
    )
  )
  assert.deepEqual(
    { ...r, tokens: { ...r.tokens } },
    {
      failures: 1, crashes: 0, starts: 2, fence: 55, suspect: false, state: '', binds: 0, due: 1700000030000,
      wait: 30000, first: 1700000000000, last: 1700000000005, cause: 'failed', openToken: 't2', openMode: 'shared',
      openSince: 9, listed: 8, limit: 4, own: 1, firsts: 1, tokens: { 'aB3_-x9': 'f', e1: 'e' }, id: Buffer.from('m1'),
      generation: Buffer.from('@@@'), consumer: Buffer.from('host 1'), notes: Buffer.alloc(0), moved: undefined,
      history: Buffer.from('\nf0\t12\thost 1\tboom'), reason: Buffer.from('boom\nat line 3')
    }
  )
  for (const text of ['', 'x', '1 2 3\n', '\n', '1 0 2 55 0 . 0 1 1 1 5 failed t2 shared 9 8 4 1 1 . 2 3 6 0 15\nm1'])
    assert.equal(parseRecord(Buffer.from(text)), undefined, text)
})

test('replies', () => {
  const good = [Buffer.from('EXHAUSTED'), 3, 1, 4, 12, 0, Buffer.from('failed'), Buffer.from('boom'), 1]
  assert.deepEqual(parseReply(good), {
    code: 'EXHAUSTED', failures: 3, crashes: 1, limit: 4, fence: 12, wait: 0, cause: 'failed', reason: 'boom',
    possibleDuplicate: true
  })
  for (const bad of [
    null, 'RUN', [], good.slice(1), [Buffer.from('NO'), ...good.slice(1)], [good[0], -1, ...good.slice(2)],
    [good[0], '1', ...good.slice(2)]
  ]) {
    assert.throws(() => parseReply(bad), { fault: 'unexpected reply' })
  }
  assert.throws(() => parseReply(good, 'end'), /code "EXHAUSTED"/)
})
