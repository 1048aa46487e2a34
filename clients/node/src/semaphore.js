/** @typedef {import('./wait.js').Stop} Stop */

/** First come, first served: a large request is not overtaken by small ones. */
export class Semaphore {
  /** @param {number} size */
  constructor(size) {
    this.free = size
    /** @type {Set<{ units: number, grant: () => void }>} in the order of their arrival */
    this.waiting = new Set()
  }

  /** @param {number} units */
  tryAcquire(units) {
    if (this.waiting.size > 0 || this.free < units) return false
    this.free -= units
    return true
  }

  /**
   * @param {number} units
   * @param {{ stop?: Stop, until?: number }} [bounds] until: by performance.now()
   * @returns {Promise<boolean>} false if a bound was met first
   */
  acquire(units, { stop, until } = {}) {
    if (stop?.done) return Promise.resolve(false)
    if (this.tryAcquire(units)) return Promise.resolve(true)
    return new Promise((resolve) => {
      /** @type {NodeJS.Timeout | undefined} */
      let timer
      /** @type {(() => void) | undefined} */
      let off
      const over = (/** @type {boolean} */ granted) => {
        clearTimeout(timer)
        off?.()
        resolve(granted)
      }
      const entry = { units, grant: () => over(true) }
      const leave = () => {
        if (!this.waiting.delete(entry)) return
        this.pass() // one behind it may fit
        over(false)
      }
      this.waiting.add(entry)
      if (until !== undefined) timer = setTimeout(leave, Math.min(Math.max(until - performance.now(), 1), 2 ** 31 - 1))
      off = stop?.on(leave)
    })
  }

  /** @param {number} units */
  release(units) {
    this.free += units
    this.pass()
  }

  pass() {
    for (const entry of this.waiting) {
      if (entry.units > this.free) return
      this.waiting.delete(entry)
      this.free -= entry.units
      entry.grant()
    }
  }
}
