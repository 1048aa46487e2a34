import { RefusedError } from './errors.js'
import { member } from './key.js'
import { newToken } from './token.js'

// A pause is in force within two seconds: one read a second, and the time that a read may take.
const EVERY = 1000

/** @typedef {import('./counter.js').Control} ControlReply */
/**
 * @typedef {object} Controller
 * @property {(vhost: string, queue: string, reader: any, options?: any) => Promise<ControlReply>} control
 * @property {(vhost: string, queue: string, options?: any) => Promise<number>} [blockedLanes]
 * @property {(vhost: string, queue: string, reader: string, waiting: any) => Promise<void>} [reportWaiting]
 */

/**
 * Reads once a second, for all consumers of the process on a queue, whether operators paused the queue or skipped
 * messages. If the store does not reply, its last reply stands.
 */
export class ControlReader {
  /**
   * @param {Controller} store
   * @param {{
   *   vhost: string, queue: string, name: string, logger: import('./settings.js').Logger, breaker?: number
   * }} of
   */
  constructor(store, { vhost, queue, name, logger, breaker }) {
    this.store = store
    /** @type {'breaker' | 'consuming'} */
    this.consuming = breaker ? 'breaker' : 'consuming'
    this.vhost = vhost
    this.queue = queue
    this.name = name
    this.logger = logger
    this.token = newToken()
    /** @type {ControlReply} */
    this.reply = { paused: false, by: '', why: '', at: 0, skips: new Set() }
    this.lanes = 0 // that dead letters hold
    /** @type {unknown} of the last read of their number */
    this.lanesError = undefined
    /** @type {Set<() => void>} called after each reply */
    this.listeners = new Set()
    /** @type {Map<object, { since: number, at: number, why: string }>} see postpone */
    this.waiting = new Map()
    this.sessions = 0 // that consume or hold deliveries
    this.users = 0
    this.reached = true
    this.stopped = false
    this.first = this.read()
    this.loop = this.first.then(() => this.run())
  }

  async run() {
    while (!this.stopped) {
      await new Promise((resolve) => {
        this.wake = resolve
        this.timer = setTimeout(resolve, EVERY)
      })
      if (!this.stopped) await this.read()
    }
    if (this.reached) await this.store.control(this.vhost, this.queue, this.reader('left')).catch(() => {})
  }

  /** Asks for a read now. */
  readNow() {
    clearTimeout(this.timer)
    this.wake?.(undefined)
  }

  /** @param {'consuming' | 'breaker' | 'stopped' | 'left'} state */
  reader(state) {
    return { token: this.token, consumer: this.name, state }
  }

  async read() {
    try {
      const state = this.reply.paused && this.sessions === 0 ? 'stopped' : this.consuming
      this.reply = await this.store.control(this.vhost, this.queue, this.reader(state))
      if (!this.reached) this.logger.info('the store replies again', { queue: this.queue, paused: this.reply.paused })
      this.reached = true
      await this.report()
      await this.readLanes()
    } catch (error) {
      if (this.reached) {
        this.logger.warn('reading whether the queue is paused: the store does not reply; its last reply stands', {
          queue: this.queue,
          error
        })
      }
      this.reached = false
    }
    for (const f of [...this.listeners]) f()
  }

  /** Reports the deliveries that wait because their attempts are not counted. The read after an error repeats it. */
  async report() {
    if (this.waiting.size === 0) return
    const all = [...this.waiting.values()]
    const ms = performance.now() - Math.min(...all.map(({ since }) => since))
    const { why } = all.reduce((newest, w) => (w.at >= newest.at ? w : newest))
    await this.store.reportWaiting?.(this.vhost, this.queue, this.token, { messages: all.length, ms, why })
      .catch(() => {})
  }

  /**
   * Notes a delivery that waits because its attempt is not counted: no record shows it to operators.
   * @param {object} d
   * @param {string} why
   */
  postpone(d, why) {
    const at = performance.now()
    this.waiting.set(d, { since: this.waiting.get(d)?.since ?? at, at, why })
  }

  /**
   * Forgets a delivery of which an attempt was counted, or that is settled.
   * @param {object} d
   */
  counted(d) {
    this.waiting.delete(d)
  }

  /** Reads how many lanes are blocked. After an error the last number stands; the first one in a row is logged. */
  async readLanes() {
    try {
      this.lanes = await this.store.blockedLanes?.(this.vhost, this.queue) ?? 0
      this.lanesError = undefined
    } catch (error) {
      if (!this.lanesError) {
        this.logger.warn('reading how many lanes are blocked: the last number stands', {
          queue: this.queue, blocked: this.lanes, error
        })
      }
      this.lanesError = error
    }
  }

  /**
   * @param {() => void} f
   * @returns {() => void} takes it back
   */
  on(f) {
    this.listeners.add(f)
    return () => { this.listeners.delete(f) }
  }

  /**
   * Why the queue must not be consumed: only a consumer in Go holds lanes.
   * @returns {RefusedError | undefined}
   */
  refusal() {
    if (this.lanes === 0) return undefined
    return new RefusedError(
      `queue ${JSON.stringify(this.queue)} is refused: ` +
      `${this.lanes} of its lanes are blocked, and their new messages would overtake the dead letters: ` +
      'consume it with a Go consumer that has HoldLanes, or release the lanes (strikes lane list)'
    )
  }

  /** A session that has ended holds no delivery any more. */
  sessionEnded() {
    this.sessions--
    if (this.reply.paused && this.sessions === 0) this.readNow()
  }
}

/** @type {WeakMap<object, Map<string, ControlReader>>} */
const readers = new WeakMap()

/**
 * The reader of a queue, which all consumers of the process share; undefined if the counter has no control.
 * @param {any} counter
 * @param {{ vhost: string, queue: string, name: string, logger: import('./settings.js').Logger, breaker?: number }} of
 */
export function holdControl(counter, of) {
  if (typeof counter.control !== 'function') return undefined
  const name = of.vhost + '\0' + of.queue
  let queues = readers.get(counter)
  if (!queues) readers.set(counter, queues = new Map())
  let reader = queues.get(name)
  if (!reader) queues.set(name, reader = new ControlReader(counter, of))
  reader.users++
  return reader
}

/**
 * Stops the reader that no other consumer uses, and waits for that.
 * @param {ControlReader | undefined} reader
 */
export async function releaseControl(reader) {
  if (!reader || --reader.users > 0) return
  readers.get(reader.store)?.delete(reader.vhost + '\0' + reader.queue)
  reader.stopped = true
  reader.readNow()
  await reader.loop
}

/**
 * Holds a delivery for its backoff. A stop ends the wait; an operator's skip ends it once.
 * @param {ControlReader | undefined} reader
 * @param {import('./wait.js').Stop} stop
 * @param {{ id: Buffer, generation: Buffer, skipped: boolean }} d
 * @param {number} ms
 * @returns {Promise<'over' | 'stopped' | 'skipped'>}
 */
export function waitUnlessSkipped(reader, stop, d, ms) {
  const name = reader ? member(d.id, d.generation) : ''
  const isSkipped = () => !d.skipped && reader !== undefined && reader.reply.skips.has(name)
  if (stop.done) return Promise.resolve('stopped')
  if (isSkipped()) {
    d.skipped = true
    return Promise.resolve('skipped')
  }
  return new Promise((resolve) => {
    /** @param {'over' | 'stopped' | 'skipped'} how */
    const end = (how) => {
      clearTimeout(timer)
      offStop()
      offReader?.()
      resolve(how)
    }
    const timer = setTimeout(() => end('over'), Math.min(Math.max(ms, 0), 2 ** 31 - 1))
    const offStop = stop.on(() => end('stopped'))
    const offReader = reader?.on(() => {
      if (!isSkipped()) return
      d.skipped = true
      end('skipped')
    })
  })
}
