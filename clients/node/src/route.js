import { DEAD_LETTER, decideWait, LEAVE, OVERDUE } from './decide.js'
import { textOf } from './errors.js'
import { failLater, overdue } from './start.js'
import { pause } from './wait.js'

/** @typedef {import('./delivery.js').Delivery} Delivery */
/** @typedef {import('./deliveries.js').Deliveries} Deliveries */

// The least time between two checks, which come only before a dead letter is sent.
const EVERY = 10_000

// How long a dead letter is held. Then its session ends, and the next one is refused until the route is whole.
// A requeue would count towards a delivery limit, at which the broker dead-letters it along the broken route.
const HOLD = 9 * 60_000

// How often the tombstone of a held dead letter is renewed. It binds for ten minutes.
const RENEW = 60_000

/** The dead-letter route of a session's queue. */
export class Route {
  /**
   * @param {() => Promise<Error | undefined>} check why the route is known to be broken; it throws if that is not known
   * @param {import('./settings.js').Logger} logger
   * @param {string} queue
   */
  constructor(check, logger, queue) {
    this.check = check
    this.logger = logger
    this.queue = queue
    this.checked = performance.now() // the session began with a check
    /** @type {Error | undefined} */
    this.broken = undefined
    /** @type {Promise<void> | undefined} */
    this.asking = undefined
  }

  /**
   * One caller checks, the others wait for its result.
   * @returns {Promise<{ wait: number, broken: Error | undefined }>}
   *   ms until the next check, and why the route is broken
   */
  async state() {
    if (performance.now() - this.checked >= EVERY) {
      this.asking ??= this.ask().finally(() => { this.asking = undefined })
      await this.asking
    }
    return { wait: Math.max(EVERY - (performance.now() - this.checked), 1), broken: this.broken }
  }

  async ask() {
    try {
      const broken = await this.check()
      if (broken && !this.broken) {
        this.logger.warn('the dead-letter route is broken: dead letters are held until it is whole', {
          queue: this.queue,
          error: broken
        })
      }
      if (!broken && this.broken) this.logger.info('the dead-letter route is whole again', { queue: this.queue })
      this.broken = broken
    } catch (error) { // the last result stays
      this.logger.warn('the dead-letter route was not checked', { queue: this.queue, error: textOf(error) })
    }
    this.checked = performance.now()
  }
}

/**
 * Holds a dead letter until it may be sent. It returns DEAD_LETTER then, or the step that replaces it.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<import('./decide.js').Step>}
 */
export async function awaitRoute(s, d) {
  const electing = s.deadLettersFrom - performance.now()
  if (electing > 0 && !await pause(electing, s.stop)) return LEAVE
  while (s.route) {
    const { wait: until, broken } = await s.route.state()
    if (!broken) break
    if (d.unrecorded) failLater(s, d) // its gate must not wait for the route
    await renewTombstone(s, d)
    if (!d.broken) {
      d.routeUntil = Math.min(performance.now() + HOLD, d.heldUntil)
      s.observe(d, 'hold', { error: broken })
    }
    d.broken = broken
    const { wait, next } = decideWait(until, d.routeUntil - performance.now(), DEAD_LETTER)
    if (!await pause(wait, s.stop)) return LEAVE
    if (next === OVERDUE) return overdue(s, d)
  }
  return DEAD_LETTER
}

/**
 * Renews the tombstone of a held dead letter by a START that meets it.
 * So the message is not attempted again when it comes back. The result is not needed.
 * @param {Deliveries} s
 * @param {Delivery} d
 */
async function renewTombstone(s, d) {
  if (!d.hasID || performance.now() - d.renewed < RENEW) return
  d.renewed = performance.now()
  // The tombstone is this delivery's, not that of an earlier use of the id.
  await s.settings.counter.start({ ...d.counted(), first: false }, 'untracked', s.limit).catch(() => {})
}
