// Runs examples/inbox.js: each order has one invoice, whatever kills the program and however often the order comes.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { fixture } from './broker.js'
import { eventually } from './servers.js'

const ORDERS = 200

test('each order has one invoice', async (t) => {
  const f = await fixture(t, { type: 'classic' })
  const database = new pg.Client({ connectionString: process.env.DATABASE_URL })
  await database.connect()
  t.after(() => database.end())
  const [, schema] = readFileSync(new URL('../../../docs/effects.md', import.meta.url), 'utf8').match(
    /```sql\n(.*?)```/s
  )
  await database.query(schema + 'DROP TABLE IF EXISTS invoices; CREATE TABLE invoices (body text)')
  const count = async (what) => Number((await database.query(`SELECT count(${what}) FROM invoices`)).rows[0].count)
  const start = () =>
    spawn(process.execPath, [fileURLToPath(new URL('../examples/inbox.js', import.meta.url)), f.queue], {
      stdio: 'inherit'
    })

  for (let number = 0; number < ORDERS; number++) {
    // A producer that gets no confirm publishes again.
    for (let copies = 0; copies < 2; copies++) await f.publish(`order ${number}`)
  }
  for (let kills = 1; kills < 4; kills++) {
    const consumer = start()
    const ended = once(consumer, 'exit')
    await eventually(async () => await count('*') > 40 * kills, 'invoices')
    consumer.kill('SIGKILL')
    await ended
  }
  const consumer = start()
  const ended = once(consumer, 'exit')
  await eventually(
    async () => (await count('DISTINCT body')) === ORDERS && (await f.depth()) === 0,
    'the invoices of all orders'
  )
  consumer.kill('SIGTERM')
  assert.deepEqual(await ended, [0, null])
  assert.equal(await count('*'), ORDERS)
  const { rows } = await database.query('SELECT DISTINCT generation FROM strikes_inbox WHERE queue = $1', [
    Buffer.from(f.queue)
  ])
  assert.deepEqual(
    rows.map((row) => row.generation.toString()),
    ['0']
  )
})
