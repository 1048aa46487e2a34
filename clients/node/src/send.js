import { StoreError } from './errors.js'
import { pause, Stop } from './wait.js'

const STEP_TIMEOUT = 1000

// Under the isolation lock a step is sent again after 250 ms, then after twice as long each time, and given up after
// 2 s: the lock keeps every other handler of the process waiting.
const LOCKED_TIMEOUT = 250
const LOCKED_PATIENCE = 2000

const never = new Stop()

/**
 * Sends a step to the store. The end of the session does not interrupt it: to wait for the reply is faster than to
 * clear up an undecided step. But under the isolation lock a START or BEGUN is not sent again after it.
 * @template T
 * @param {import('./deliveries.js').Deliveries} s
 * @param {import('./delivery.js').Delivery} d
 * @param {(options: { timeout: number }) => Promise<T>} step
 * @param {boolean} [starting] the step is START or BEGUN
 * @returns {Promise<T>}
 */
export async function send(s, d, step, starting = false) {
  if (!d.isolated) return step({ timeout: STEP_TIMEOUT })
  const until = performance.now() + LOCKED_PATIENCE
  for (let timeout = LOCKED_TIMEOUT; ;) {
    const began = performance.now()
    try {
      return await step({ timeout })
    } catch (err) {
      if (notTaken(err) || performance.now() >= until || starting && s.stop.done) throw err
      const rest = timeout - (performance.now() - began)
      if (rest > 0) await pause(rest, never)
      timeout = Math.min(2 * timeout, Math.max(until - performance.now(), LOCKED_TIMEOUT))
    }
  }
}

/**
 * Whether the store refused a step without taking it.
 * @param {unknown} err
 */
export function notTaken(err) {
  return err instanceof StoreError && ['foreign', 'denied', 'of another kind', 'not set up'].includes(err.fault)
}
