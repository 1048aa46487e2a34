import { Semaphore } from './semaphore.js'

/** The weight of an isolated attempt. */
export const EVERYTHING = 2 ** 40

/** Is shut while the isolation lock is free and an isolated attempt is undecided. */
export class Gate {
  constructor() {
    this.closed = false
    /** @type {Set<() => void>} */
    this.waiting = new Set()
  }

  shut() {
    this.closed = true
  }

  open() {
    this.closed = false
    const waiting = [...this.waiting]
    this.waiting.clear()
    for (const f of waiting) f()
  }

  /**
   * Waits until the gate is open.
   * @param {import('./wait.js').Stop} stop
   * @param {number} until by performance.now()
   * @returns {Promise<boolean>} false if stop or until came first
   */
  async pass(stop, until) {
    while (this.closed) {
      if (stop.done || performance.now() >= until) return false
      await new Promise((resolve) => {
        const over = () => {
          clearTimeout(timer)
          off()
          this.waiting.delete(over)
          resolve(undefined)
        }
        const timer = setTimeout(over, Math.min(until - performance.now(), 2 ** 31 - 1))
        this.waiting.add(over)
        const off = stop.on(over)
      })
    }
    return !stop.done
  }
}

/**
 * Shared by all consumers of the process, because a message kills all of it.
 *
 * lock       one unit for each handler that runs; all for an isolated attempt, from its START to the step that
 *            closes it
 * undecided  held for the one isolated attempt that may be open in the store, until the store has answered the step
 *            that closes it
 * gate       while it is shut, a message that may have killed a process gets no attempt:
 *            its kill would count against the undecided one
 * abandoned  handlers that passed their deadline and still run: while there is one, nothing is isolated
 */
export class Isolation {
  constructor() {
    this.lock = new Semaphore(EVERYTHING)
    this.undecided = new Semaphore(1)
    this.gate = new Gate()
    this.abandoned = 0
  }
}

// npm may install this package several times in one program; the process is still one.
const shared = Symbol.for('strikes.isolation.1')

/** @returns {Isolation} */
export function ofProcess() {
  const all = /** @type {any} */ (globalThis)
  all[shared] ??= new Isolation()
  return all[shared]
}
