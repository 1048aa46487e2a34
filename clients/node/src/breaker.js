// The breaker: while no message of a queue succeeds, no attempt begins but for probes, and no failure is counted. The
// rules are those of the store's scripts. This file holds deliveries back in one process. A session without a Breaker
// calls nothing here.
import { chance } from './backoff.js'
import { LEAVE } from './decide.js'
import { FieldError } from './errors.js'
import { counted } from './reply.js'
import { giveBack } from './start.js'
import { Stop } from './wait.js'

/** @typedef {import('./delivery.js').Delivery} Delivery */
/** @typedef {import('./deliveries.js').Deliveries} Deliveries */
/** @typedef {import('./counter.js').BreakerState} BreakerState */

/** How many messages beyond the prefetch are fetched when all of the prefetch have failed. */
export const FRESH = 50

const MOST = 100
const EVERY = 1000 // ms between two reads of the breaker
const SOON = 250 // the same, while messages have failed with no success since
const BLINDLY = 5000 // without a reply of the store, after which first deliveries begin
const IDLE = 5000 // without a success of others, after which a process is not alone in failing
const SETTLE = 300 // a failed message waits so long for a fresh one to take its probe
const TURNS = 200 // ms, the longest that a process leaves a permit to others
const DOUBT_LASTS = 2000
const FIRST_PERMIT = 1000
const LATER_PERMITS = 3000
const PROBES = 3

/**
 * Refuses settings that make no sense.
 * @param {number} breaker
 * @param {number} patience
 */
export function checkBreaker(breaker, patience) {
  if (breaker !== 0 && !(Number.isInteger(breaker) && breaker >= 2 && breaker <= MOST))
    throw new FieldError('breaker', breaker, `2 to ${MOST}, or 0 for none`)
  if (!Number.isFinite(patience) || patience < 0) throw new FieldError('patience', patience, 'ms, 0 at least')
  if (patience > 0 && breaker === 0) throw new FieldError('patience', patience, '0 without a breaker')
}

/**
 * A delivery that waits. A probe is an attempt that a permit let begin.
 * @typedef {object} Waiting
 * @property {number} probes
 * @property {number} failures
 * @property {boolean} first its attempt needs no store
 * @property {(how: 'open' | 'probe' | 'too long') => void} end
 */

/**
 * The breaker of one consumer, for all its sessions. It is shut while the breaker of the queue is open, and while every
 * message fails in this process alone.
 */
export class Breaker {
  /**
   * @param {{ breaker: number, patience: number }} size
   * @param {{ queue: string, vhost: string, counter: any, logger: import('./settings.js').Logger }} settings
   */
  constructor({ breaker, patience }, { queue, vhost, counter, logger }) {
    this.size = breaker
    this.patience = patience
    this.queue = queue
    this.vhost = vhost
    this.counter = counter
    this.logger = logger
    this.shut = false
    /** @type {Stop | undefined} ends once no fresh messages are needed; undefined: none are */
    this.calm = undefined
    /** @type {(() => void) | undefined} asks for fresh messages; of the session */
    this.fetch = undefined
    this.fetching = false
    this.fresh = true // messages beyond the prefetch can be fetched
    /** @type {BreakerState} */
    this.state = {
      permitted: false, now: 0, success: 0, doubt: 0, open: 0, next: 0, count: 0, failed: 0, permits: 0, reason: ''
    }
    this.heard = performance.now() // when the store replied last
    this.due = 0 // when this process asks for the next permit
    this.missed = false // it did not reply to the last read
    this.asked = false // a read since the store last replied asked for a permit
    /** @type {number | undefined} */
    this.began = undefined // of the latest successes to report; undefined: reported
    /** @type {number | undefined} */
    this.ended = undefined
    /** @type {Waiting[]} */
    this.waiting = []
    this.failures = 0 // messages that failed here since the last success here
    /** @type {number | undefined} */
    this.alone = undefined // since when these are as many as the breaker
    /** @type {number | undefined} */
    this.stopped = undefined // since when the process has stopped alone
    this.others = -Infinity // when another process was known to have succeeded meanwhile
    this.next = 0 // its next permit
    this.permits = 0 // attempts left of a permit
    this.over = false
  }

  // The core calls these.

  /**
   * Returns the progress that a step reports which is sent now.
   * @param {number | undefined} attempt when it began
   * @returns {import('./counter.js').Progress}
   */
  progress(attempt) {
    return {
      breaker: this.size, patience: this.patience, began: this.began, ended: this.ended, attempt,
      failing: this.alone !== undefined
    }
  }

  /**
   * Is called after the store has replied to a step with this progress. Each success is reported once: a report that
   * the store takes late seems to be of a later success.
   * @param {import('./counter.js').Progress} progress
   */
  reported({ began, ended }) {
    if (this.began === began) this.began = undefined
    if (this.ended === ended) this.ended = undefined
  }

  /**
   * Holds a delivery while no attempt may begin. It returns undefined once its attempt may begin, else the step that
   * replaces the attempt.
   * @param {Deliveries} s
   * @param {Delivery} d
   * @returns {Promise<import('./decide.js').Step | undefined>}
   */
  async begin(s, d) {
    if (!this.shut) return undefined
    s.release(d)
    if (d.probes === 0 && d.postponed === 0)
      s.observe(d, 'hold', { error: new Error('no message succeeds, so its attempt waits; see strikes status') })
    const how = await this.wait(s.stop, d.heldUntil, {
      probes: d.probes, failures: (d.reply ? counted(d.reply) : 0) + d.postponed,
      first: d.isFirst && d.fence === undefined
    })
    if (how === 'too long') return s.stop.done ? LEAVE : giveBack(s, d)
    if (how === 'probe') d.probes++
    return undefined
  }

  /**
   * Is called before the ack of a delivery whose handler returned.
   * @param {Delivery} d
   */
  succeeded(d) {
    const began = /** @type {number} */ (d.began)
    this.began = Math.max(this.began ?? began, began)
    this.ended = Math.max(this.ended ?? began, began + d.ran)
    this.failures = 0
    if (this.alone !== undefined) this.goOn('a message succeeded in this process: it goes on')
    if (this.state.doubt > 0) this.wake()
  }

  /**
   * Is called after the reply to FAIL.
   * @param {Delivery} d
   */
  failed(d) {
    this.reported(/** @type {import('./counter.js').Progress} */ (d.progress))
    const reply = /** @type {import('./reply.js').Reply} */ (d.reply)
    const counts = reply.code !== 'UNCOUNTED'
    if (d.cause === 'rejected') return // the message is at fault, and no system that handlers need
    const mine = d.cause === 'not-counted'
    const first = mine ? counted(reply) === 0 && d.postponed === 0 : counts && counted(reply) === 1
    if (!first || this.state.doubt > 0 || ++this.failures !== this.size) return
    this.alone = performance.now()
    this.update()
    this.askFresh() // all that was prefetched may fail always, while another message succeeds
  }

  // A consumer calls these.

  /**
   * Begins a session.
   * @param {() => void} fetch asks for messages beyond the prefetch
   */
  attach(fetch) {
    this.fetch = fetch
    this.fetching = false
  }

  /** Asks for no messages beyond the prefetch any more, because the broker refuses to deliver them. */
  fetchNone() {
    if (!this.fresh) return
    this.fresh = false
    this.logger.warn(
      'the broker allows one consumer on a channel (consumer_max_per_channel): no messages beyond the prefetch are ' +
      'fetched, and probes are attempts at failed messages',
      { queue: this.queue }
    )
  }

  /**
   * Reads the breaker once a second, and when a permit may be due, until close. Then it reports the last success, if
   * the store replies.
   */
  async run() {
    while (!this.over) {
      const woken = new Promise((resolve) => { this.wakes = resolve })
      await this.ask()
      this.stopAlone()
      if (this.over) break
      const timer = setTimeout(() => this.wake(), this.pause())
      await woken
      clearTimeout(timer)
    }
    if (!this.missed && (this.began ?? this.ended) !== undefined) await this.ask() // no later read reports this success
  }

  close() {
    this.over = true
    this.wake()
  }

  wake() {
    this.wakes?.(undefined)
  }

  /**
   * @param {Stop} stop
   * @param {number} until by performance.now()
   * @param {{ probes: number, failures: number, first: boolean }} of
   * @returns {Promise<'open' | 'probe' | 'too long'>}
   */
  wait(stop, until, of) {
    return new Promise((resolve) => {
      /** @type {(() => void) | undefined} */
      let off
      /** @type {Waiting} */
      const w = { ...of, end: (how) => {
        clearTimeout(timer)
        off?.()
        this.waiting = this.waiting.filter((x) => x !== w)
        resolve(how)
      } }
      const timer = setTimeout(() => w.end('too long'), Math.min(Math.max(until - performance.now(), 0), 2 ** 31 - 1))
      this.waiting.push(w)
      off = stop.on(() => w.end('too long'))
      if (stop.done) return
      if (this.waiting.length === 1) this.wake()
      this.spend(false)
    })
  }

  /** How many ms until the next read. */
  pause() {
    const { state } = this
    let due = EVERY
    if (state.failed > 0 && state.open === 0 && !this.missed) due = SOON
    if (this.waiting.length > 0 && state.open > 0 && !this.missed)
      due = this.due - performance.now()
    return Math.min(Math.max(due, 1), EVERY)
  }

  async ask() {
    const { queue } = this
    const progress = this.progress(undefined)
    const wants = this.waiting.length > 0 && !this.missed && performance.now() >= this.due
    let state
    try {
      state = await this.counter.askBreaker(this.vhost, queue, progress, wants)
    } catch {
      this.missed = true
      this.asked ||= wants
      return this.update()
    }
    this.reported(progress)
    const { state: before, asked } = this
    this.state = state
    this.heard = performance.now()
    this.missed = this.asked = false
    // A random wait gives each process its turn. Without it the one nearest to the store would get all permits.
    this.due = this.heard + state.next - state.now + chance.draw() * TURNS
    if (state.open > 0 && before.open === 0) {
      this.logger.warn('no message succeeds: only probes begin, and no failure is counted', {
        queue, failed: state.failed, reason: state.reason
      })
    } else if (before.open > 0 && state.open === 0) {
      this.logger.warn('attempts begin again', { queue, after: state.now - before.open })
      this.failures = 0
      this.alone = this.stopped = undefined
    } else if (state.success > before.success) {
      this.others = this.heard
    }
    this.update()
    // perhaps the permit was in the reply that was lost
    if (state.permitted || asked && state.open > 0 && state.permits > before.permits) this.permit()
  }

  /** Stops this process, in which every message fails while others succeed, and gives it its own permits. */
  stopAlone() {
    if (this.alone === undefined || this.state.doubt > 0) return
    const now = performance.now()
    if (this.state.count > this.state.now) {
      this.goOn('an operator wants every failure counted: this process goes on')
    } else if (!this.missed && now - this.alone > IDLE && now - this.others > IDLE) { // perhaps only poison is left
      this.goOn('no message succeeds in other processes either: this process goes on, and its failures count')
    } else if (this.stopped === undefined && now - this.alone >= DOUBT_LASTS) {
      this.stopped = now
      this.next = now + FIRST_PERMIT
      this.logger.warn(
        'no message succeeds in this process, while others succeed: it begins only probes, and counts nothing',
        { queue: this.queue, failed: this.failures }
      )
      this.update()
    } else if (this.stopped !== undefined && now >= this.next && this.waiting.length > 0) {
      this.next = now + LATER_PERMITS
      this.permit()
    }
  }

  /**
   * Counts the failures in this process from 0 again. If the process has stopped alone, it goes on and logs why.
   * @param {string} why
   */
  goOn(why) {
    if (this.stopped !== undefined) this.logger.warn(why, { queue: this.queue })
    this.failures = 0
    this.alone = this.stopped = undefined
    this.update()
  }

  /** Opens or shuts. */
  update() {
    const shut = this.state.open > 0 || this.stopped !== undefined
    if (shut !== this.shut) {
      this.shut = shut
      this.permits = 0
    }
    const trouble = shut || this.alone !== undefined
    if (trouble) {
      this.calm ??= new Stop()
    } else if (this.calm) {
      this.calm.end()
      this.calm = undefined
      this.fetching = false
    }
    this.spend(false)
  }

  /** Asks for fresh messages once, until all is calm. */
  askFresh() {
    if (!this.fetch || !this.fresh || this.fetching) return
    this.fetching = true
    this.fetch()
  }

  permit() {
    this.permits = PROBES
    this.spend(false)
    if (this.permits === 0) return
    this.askFresh()
    setTimeout(() => {
      this.spend(true)
      this.permits = 0
    }, SETTLE)
  }

  /**
   * Lets waiting deliveries go: all if it is not shut, else one for each probe.
   * Fresh ones go first. If all is true, failed ones follow, those with the fewest attempts first.
   * @param {boolean} all
   */
  spend(all) {
    const waiting = [...this.waiting].sort((a, b) => a.probes - b.probes || a.failures - b.failures)
    if (!this.shut) {
      // Those that have failed often go between those that have not: many failures in a row would look like an outage.
      while (waiting.length > 0) {
        waiting.shift()?.end('open')
        waiting.pop()?.end('open')
      }
      return
    }
    const blind = this.missed && performance.now() - this.heard >= BLINDLY
    for (const w of waiting) {
      if (blind && w.first) {
        w.end('open')
      } else if (this.permits > 0 && (all || !this.fresh || w.probes + w.failures === 0)) {
        this.permits--
        w.end('probe')
      }
    }
  }
}
