import { fingerprintOf } from './fingerprint.js'
import { ACK, AGAIN, DEAD_LETTER, decideReceived, LEAVE, REQUEUE, RUN, SUPERSEDED } from './decide.js'
import { conclude } from './conclude.js'
import { Delivery } from './delivery.js'
import { SettlementError, textOf } from './errors.js'
import { invoke } from './invoke.js'
import { awaitRoute } from './route.js'
import { Semaphore } from './semaphore.js'
import { begin, close, decided, endLater, failLater, unlock } from './start.js'
import { Stop, turn } from './wait.js'

/** @typedef {import('./decide.js').Step} Step */
/** @typedef {import('./settings.js').Outcome} Outcome */

/** @type {{ [step: string]: Outcome }} */
const OUTCOMES = { [ACK]: 'ack', [SUPERSEDED]: 'superseded', [REQUEUE]: 'requeue', [DEAD_LETTER]: 'dead-letter' }

/** How many abandoned handlers may run in the process for each handler of the concurrency. */
const MOST_STUCK = 10

/**
 * The deliveries of one session, and their shared state. Once stop has ended, nothing new begins. Once live has ended,
 * which is not before stop, handlers are cancelled.
 */
export class Deliveries {
  /**
   * @param {import('./settings.js').Settings} settings
   * @param {import('./invoke.js').Handler} handler
   * @param {object} shared
   * @param {import('./isolation.js').Isolation} shared.isolation
   * @param {import('./late.js').Late} shared.late
   * @param {number} [shared.concurrency]
   * @param {import('./control.js').ControlReader} [shared.control]
   * @param {import('./route.js').Route} [shared.route]
   * @param {number} [shared.deadLettersFrom] dead letters are held until then
   * @param {import('./breaker.js').Breaker} [shared.breaker]
   * @param {(err: Error) => void} [shared.fail] ends the session
   */
  constructor(
    settings, handler,
    { isolation, late, concurrency = 1, control, route, deadLettersFrom = 0, breaker, fail = () => {} }
  ) {
    this.settings = settings
    this.handler = handler
    this.isolation = isolation
    this.late = late
    this.control = control
    this.route = route
    this.breaker = breaker
    this.deadLettersFrom = deadLettersFrom
    this.mostStuck = MOST_STUCK * concurrency
    this.fail = fail
    this.limit = settings.maxRetries + 1
    this.workers = new Semaphore(concurrency)
    // For open attempts, so that no more are open than soon run: each becomes a suspect if the process dies.
    this.slots = new Semaphore(2 * concurrency)
    this.stop = new Stop()
    this.live = new Stop()
    this.live.on(() => this.stop.end())
    this.settling = true // false: the channel is given up, nothing is settled late
    this.open = 0
    /** @type {(() => void)[]} */
    this.idle = []
  }

  /**
   * Carries a delivery from its receipt to its settlement.
   * @param {Delivery} d
   * @returns {Promise<Delivery>}
   */
  async deliver(d) {
    this.open++
    d.breaker = this.breaker
    try {
      await this.finish(d, await this.attempts(d))
    } catch (err) { // a fault of this package must not settle anything
      d.error = err instanceof Error ? err : new Error(textOf(err))
      if (d.open || d.doubt) endLater(this, d, false)
      else decided(this, d)
      this.release(d)
    }
    this.control?.counted(d)
    if (d.error) this.fail(d.error)
    if (--this.open === 0) for (const f of this.idle.splice(0)) f()
    return d
  }

  /**
   * Makes attempts until one decides how d is settled.
   * @param {Delivery} d
   * @returns {Promise<Step>}
   */
  async attempts(d) {
    for (;;) {
      let next = await begin(this, d)
      if (next === RUN) {
        await invoke(this, d)
        next = await conclude(this, d)
      }
      if (next !== AGAIN) return next
    }
  }

  /** @param {Delivery} d @returns {Step} */
  received(d) {
    return decideReceived(d.hasID, d.isFirst && (d.fence === undefined || !d.hasID))
  }

  /**
   * Settles d, or leaves it to return with its session.
   * @param {Delivery} d
   * @param {Step} next
   */
  async finish(d, next) {
    if (next === DEAD_LETTER) next = await awaitRoute(this, d)
    if (next === ACK && d.number > 0) this.succeeded(d)
    if (next === LEAVE && !d.unrecorded) await close(this, d) // else FAIL closes the attempt too
    this.release(d)
    this.settle(d, next)
    this.observe(d, d.outcome)
    if (next === ACK && d.open) endLater(this, d, true) // its END was not answered
    else if (d.unrecorded) failLater(this, d)
  }

  /**
   * Tells the breaker once that a handler returned.
   * @param {Delivery} d
   */
  succeeded(d) {
    if (!d.succeeded) this.breaker?.succeeded(d)
    d.succeeded = true
  }

  /** @param {Delivery} d @param {Step} next */
  settle(d, next) {
    d.outcome = OUTCOMES[next] ?? 'leave'
    if (d.outcome === 'leave') return
    try {
      if (!this.settling) throw new Error('the session has ended')
      if (next === ACK || next === SUPERSEDED) d.channel.ack(d.message)
      else d.channel.nack(d.message, false, next === REQUEUE)
    } catch (err) {
      // amqplib throws once the channel is closed
      d.error = new SettlementError(
        `queue ${JSON.stringify(d.queue)}: ${d.outcome} was not sent: ${textOf(err)}; ` +
        'the delivery returns to the queue',
        err
      )
      d.outcome = 'leave'
    }
  }

  /**
   * Gives back the isolation lock, the slot and the worker of an attempt.
   * @param {Delivery} d
   */
  release(d) {
    unlock(this, d)
    this.leaveSlot(d)
    if (d.worker) {
      d.worker = false
      this.workers.release(1)
    }
  }

  /** @param {Delivery} d */
  leaveSlot(d) {
    if (!d.slot) return
    d.slot = false
    this.slots.release(1)
  }

  /**
   * Waits for a worker until the stop: each delivery gives its worker back in bounded time. Then it lets the event loop
   * turn, because workers pass from handler to handler without it.
   * @param {Delivery} d
   */
  async takeWorker(d) {
    d.worker ||= this.workers.tryAcquire(1) || await this.workers.acquire(1, { stop: this.stop })
    await turn()
    return d.worker
  }

  /**
   * Takes units of the isolation lock, for as long as the delivery may be held.
   * @param {Delivery} d
   * @param {number} units
   */
  async takeLock(d, units) {
    if (this.stop.done || performance.now() >= d.heldUntil) return false
    const { lock } = this.isolation
    if (!lock.tryAcquire(units) && !await lock.acquire(units, { stop: this.stop, until: d.heldUntil })) return false
    d.lock = units
    if (!this.stop.done) return true
    unlock(this, d)
    return false
  }

  /**
   * @param {Delivery} d
   * @param {import('./settings.js').Event['outcome']} outcome
   * @param {{ wait?: number, error?: unknown }} [more]
   */
  observe(d, outcome, { wait, error = d.error ?? d.failure } = {}) {
    const { vhost, queue, message, number, cause, name, reply } = d
    if (outcome === 'dead-letter' || outcome === 'retry') this.log(d, outcome, wait, error)
    const elapsed = performance.now() - d.received
    try {
      this.settings.observer({
        outcome, vhost, queue, message, number, token: name.token, failures: reply?.failures ?? 0,
        crashes: reply?.crashes ?? 0, limit: reply?.limit, elapsed, cause, wait, error
      })
    } catch (err) {
      this.settings.logger.error('the observer threw', { queue, error: err })
    }
  }

  /**
   * Logs a dead letter or a retry. A message without an id has no record, so its line shows the fingerprint by which
   * strikes dead list --read names it.
   * @param {Delivery} d
   * @param {'dead-letter' | 'retry'} outcome
   * @param {number | undefined} wait
   * @param {unknown} error
   */
  log(d, outcome, wait, error) {
    const { logger, maxRetries } = this.settings
    if (outcome === 'retry' && !logger.debug) return
    const { queue, number: attempt, cause } = d
    const named = d.hasID ? { id: d.id.toString() } : { fingerprint: fingerprintOf(d.message) }
    const limit = d.hasID ? d.reply?.limit || maxRetries + 1 : 1
    const fields = { queue, ...named, attempt, limit, cause, error }
    if (outcome === 'retry') logger.debug?.('an attempt failed; the message is retried', { ...fields, wait })
    else if (d.hasID) logger.warn('dead-lettered a message', fields)
    else logger.warn('dead-lettered a message without an id: the store has no record of it', fields)
  }

  /** Returns once no delivery is under way. */
  done() {
    return this.open === 0 ? Promise.resolve() : new Promise((resolve) => { this.idle.push(() => resolve(undefined)) })
  }
}
