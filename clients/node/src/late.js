import { storeBackoff } from './backoff.js'
import { pause, Stop } from './wait.js'

const FOR = 60_000 // ms for which a late step is offered to the store
const MOST = 1000 // late steps at the same time; more are dropped

/**
 * Holds the steps that could not be taken while their delivery was there, because the store was out of reach: the END
 * of an attempt after its session, the FAIL of a message that was dead-lettered. Both are harmless to repeat.
 */
export class Late {
  /** @param {boolean} [owned] its owner calls close, and waits */
  constructor(owned = true) {
    this.owned = owned
    this.over = new Stop()
    /** @type {Set<Promise<void>>} */
    this.tasks = new Set()
  }

  /**
   * Repeats a step. If over is given, the step is repeated until close,
   * and over is called once the store took it or it is given up.
   * @param {() => Promise<unknown>} step
   * @param {(() => void) | undefined} over
   */
  add(step, over) {
    if (this.over.done || this.tasks.size >= MOST) return over?.()
    const until = over && this.owned ? Infinity : performance.now() + FOR
    const task = this.repeat(step, until).finally(() => { this.tasks.delete(task); over?.() })
    this.tasks.add(task)
  }

  /** @param {() => Promise<unknown>} step @param {number} until */
  async repeat(step, until) {
    for (let sent = 1; performance.now() < until; sent++) {
      const last = !await pause(storeBackoff(sent), this.over)
      try {
        await step()
        return
      } catch {
        if (last) return
      }
    }
  }

  /** Has each step sent once more, and waits for them. */
  async close() {
    this.over.end()
    await Promise.all(this.tasks)
  }
}

/** Serves Settlers. Its steps end within a minute. */
export const ownerless = new Late(false)
