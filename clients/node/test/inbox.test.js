// Runs examples/inbox.js: each order has one invoice, whatever kills the program and however often the order comes.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import pg from 'pg'
import { fixture } from './broker.js'
import { listen } from './proxy.js'
import { eventually } from './servers.js'

const ORDERS = 200

/** A queue of orders, an empty database, and the program. */
async function inbox(t) {
  const f = await fixture(t, { type: 'classic' })
  const database = await open(t)
  const [, schema] = readFileSync(new URL('../../../docs/effects.md', import.meta.url), 'utf8').match(
    /```sql\n(.*?)```/s
  )
  await database.query(schema + 'DROP TABLE IF EXISTS invoices; CREATE TABLE invoices (body text)')
  const count = async (what) => Number((await database.query(`SELECT count(${what}) FROM invoices`)).rows[0].count)
  const start = ({ url = process.env.DATABASE_URL, write = '' } = {}) => {
    const example = readFileSync(new URL('../examples/inbox.js', import.meta.url), 'utf8')
    const program = example.replace('const write = ', `const write = ${write}`)
    const env = { ...process.env, DATABASE_URL: url }
    const args = ['--input-type=module', '--eval', program, '-', f.queue]
    const consumer = spawn(process.execPath, args, { stdio: 'inherit', env })
    t.after(() => consumer.kill('SIGKILL'))
    return consumer
  }
  return { f, database, count, start }
}

/** A connection to the database. */
async function open(t) {
  const database = new pg.Client({ connectionString: process.env.DATABASE_URL })
  await database.connect()
  t.after(() => database.end())
  return database
}

test('each order has one invoice', async (t) => {
  const { f, database, count, start } = await inbox(t)
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

test('a connection that is cut during the work is a failed attempt, and the program lives', async (t) => {
  const { f, database, count, start } = await inbox(t)
  const other = await open(t)
  await other.query('BEGIN; LOCK invoices')
  const proxy = await listen(process.env.DATABASE_URL)
  t.after(() => proxy.close())
  const consumer = start({ url: proxy.url })
  const ended = once(consumer, 'exit')
  await f.publish('order')
  const working = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO invoices%'"
  await eventually(async () => (await database.query(working)).rowCount === 1, 'the work waits')
  proxy.cut()
  await other.query('COMMIT')
  await eventually(async () => consumer.exitCode !== null || (await count('*')) === 1, 'the second attempt')
  consumer.kill('SIGTERM')
  assert.deepEqual(await ended, [0, null])
  assert.equal(await count('*'), 1)
})

test('work that hides an error of the database is a failed attempt', async (t) => {
  const { f, start } = await inbox(t)
  const consumer = start({ write: "(tx) => tx.query('no SQL').catch(() => {})\nexport const unused = " })
  const ended = once(consumer, 'exit')
  await f.publish('order')
  await f.dead(1)
  consumer.kill('SIGTERM')
  assert.deepEqual(await ended, [0, null])
})
