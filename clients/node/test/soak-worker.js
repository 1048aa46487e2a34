// A consumer process of the soak: integration/lab/soak/languages.go describes its work, and starts it.
import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import amqp from 'amqplib'
import { Consumer, dial, reject } from '../src/index.js'

const MS = 1e6 // durations come in nanoseconds
const EARLY = 100 // the client's deadline is a little before that of its handler's own clock

const spec = JSON.parse(process.env.STRIKES_WORKER)
const log = openSync(join(spec.History, String(spec.Number).padStart(6, '0') + '.ndjson'), 'a', 0o600)
const stop = new AbortController()
let sessions = 0

/** Appends an event to the history, in one write. */
function write(kind, fields = {}) {
  const event = { kind, at: new Date(performance.timeOrigin + performance.now()).toISOString(), process: spec.Number }
  for (const [name, value] of Object.entries(fields)) if (value) event[name] = value
  writeSync(log, JSON.stringify(event) + '\n')
}

/** Has a counter write down that BEGUN is sent. */
function watch(counter) {
  const { begun } = counter
  counter.begun = (attempt, ...rest) => {
    write('asked', { id: String(attempt.id), token: attempt.token }) // the process may die before the handler begins
    return begun.call(counter, attempt, ...rest)
  }
  return counter
}

/** Opens the connection of one session, and watches it to its end. */
async function connect() {
  const url = new URL(spec.AMQP)
  url.searchParams.set('heartbeat', spec.Heartbeat / MS / 1000)
  const connection = await amqp.connect(url.href, {
    timeout: 5000, noDelay: true, clientProperties: { connection_name: `soak ${spec.Number}` }
  })
  const session = ++sessions
  let error
  connection.on('error', (err) => { error = err })
  connection.on('close', (err) => {
    error ??= err
    if (error || !stop.signal.aborted) write('lost', { session, err: error ? String(error.message) : 'hung up' })
  })
  write('opened', { session })
  return connection
}

class JobError extends Error {}

async function handle(message, attempt) {
  const job = JSON.parse(message.content)
  const run = { id: message.properties.messageId, token: attempt.token, session: sessions }
  write('began', run)
  const deadline = performance.now() + spec.HandlerTimeout / MS - EARLY
  let outcome = 'ok'
  try {
    await work(job, attempt)
  } catch (err) {
    if (err instanceof JobError) outcome = job.do === 'reject' ? 'rejected' : 'failed'
    else outcome = performance.now() >= deadline ? 'timed-out' : 'cancelled'
    throw job.do === 'reject' && err instanceof JobError ? reject(err) : err
  } finally {
    write('ended', { outcome, ...run })
  }
}

/** Does the job. Kill does not return. A panic is a failure here. */
async function work(job, attempt) {
  await rest(job.ms, attempt.signal)
  attempt.signal.throwIfAborted()
  if (['succeed', 'slow'].includes(job.do) || job.do === 'fail' && attempt.number > job.times) return
  if (job.do === 'kill') {
    process.kill(process.pid, 'SIGKILL')
    for (;;); // until the signal arrives
  }
  if (['hang', 'deaf'].includes(job.do)) {
    await rest(Infinity, attempt.signal)
    if (job.do === 'deaf') await rest(3000)
    throw attempt.signal.reason
  }
  throw new JobError('the job says so')
}

/** Waits for ms, or until the signal is aborted. */
function rest(ms, signal) {
  if (signal?.aborted) return undefined
  return new Promise((resolve) => {
    const timer = ms === Infinity ? undefined : setTimeout(resolve, ms)
    signal?.addEventListener('abort', () => { clearTimeout(timer); resolve() }, { once: true })
  })
}

function observe(e) {
  if (e.outcome === 'dead-letter') write('decided', { id: e.message?.properties.messageId, token: e.token })
}

process.stdin.on('end', () => process.exit(3)).resume() // its parent is gone
process.on('SIGINT', () => {})
process.on('SIGTERM', () => stop.abort())

const counter = watch(dial(spec.Redis))
const url = new URL(spec.AMQP)
const consumer = new Consumer({
  connect, queue: spec.Queue, vhost: decodeURIComponent(url.pathname.slice(1)) || '/', counter, handler: handle,
  observer: observe, maxRetries: spec.MaxRetries, concurrency: spec.Concurrency,
  ...(spec.Prefetch && { prefetch: spec.Prefetch }),
  backoff: (failed) => Math.min((spec.FirstBackoff / MS) * 2 ** Math.min(failed, 20), spec.MostBackoff / MS),
  handlerTimeout: spec.HandlerTimeout / MS, consumerTimeout: spec.ConsumerTimeout / MS, drainTimeout: 5000
})
let failed
try {
  await consumer.run(stop.signal)
} catch (err) {
  failed = err
  console.error('worker:', err.message)
}
closeSync(log)
process.exit(failed ? 1 : 0)
