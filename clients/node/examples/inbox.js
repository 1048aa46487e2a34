// Writes one invoice for each order of a queue in PostgreSQL, however often the order is delivered.
//
// AMQP_URL=… REDIS_URL=… DATABASE_URL=… node inbox.js orders
//
// The table strikes_inbox is that of plugin/pgstrikes, so consumers in Go and Node.js share it. docs/effects.md has its
// schema and the rules for `write`.
import pg from 'pg'
import { Consumer, dial, reject } from 'strikes'

const [url, store, connectionString] = ['AMQP_URL', 'REDIS_URL', 'DATABASE_URL'].map((name) => process.env[name])
const queue = process.argv[2]
const database = new pg.Pool({ connectionString })
database.on('error', console.error) // of a connection that is idle
database.on('connect', (connection) => connection.on('error', () => {})) // of one in use: its query throws it

const MARK = 'INSERT INTO strikes_inbox (queue, id, generation, fence) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING'

const once = (work) => async (message, attempt) => {
  if (attempt.id.length === 0) throw reject(new Error('the message has no id, so its work could be done twice'))
  const tx = await database.connect()
  let failed
  try {
    await tx.query("BEGIN; SET LOCAL idle_in_transaction_session_timeout = '5min'") // the handler timeout
    const mark = await tx.query(MARK, [Buffer.from(queue), attempt.id, Buffer.from(attempt.generation), attempt.fence])
    if (mark.rowCount === 1) await work(tx, message) // otherwise the work is done already
    const { command } = await tx.query('COMMIT')
    if (command !== 'COMMIT') throw new Error('the database rolled back: work hid a database error')
  } catch (error) {
    throw (failed = error)
  } finally {
    tx.release(failed) // after an error it closes the connection, and the database rolls back
  }
}

const write = (tx, message) => tx.query('INSERT INTO invoices (body) VALUES ($1)', [message.content.toString()])

const [counter, stop] = [dial(store), new AbortController()]
process.once('SIGTERM', () => stop.abort())
await new Consumer({ url, queue, counter, handler: once(write), logger: console }).run(stop.signal)
counter.close()
await database.end()
