// A clock that a test advances, in place of the timers and of performance.now.
const real = {
  setTimeout, clearTimeout, setImmediate, performance: Object.getOwnPropertyDescriptor(globalThis, 'performance')
}

export class Clock {
  constructor() {
    this.time = 0
    this.timers = new Map()
    this.last = 0
  }

  install() {
    globalThis.setTimeout = (f, ms = 0) => {
      const id = { n: ++this.last, unref: () => id, ref: () => id }
      this.timers.set(id, { f, at: this.time + Math.max(ms, 1) })
      return id
    }
    globalThis.clearTimeout = (id) => { this.timers.delete(id) }
    Object.defineProperty(globalThis, 'performance', { value: { now: () => this.time }, configurable: true })
  }

  restore() {
    globalThis.setTimeout = real.setTimeout
    globalThis.clearTimeout = real.clearTimeout
    Object.defineProperty(globalThis, 'performance', real.performance)
  }

  /** Lets everything happen that needs no time. */
  async settle() {
    for (let n = 0; n < 3; n++) await new Promise((resolve) => { real.setImmediate(resolve) })
  }

  /** Advances to a time, and calls the timers that are due on the way. */
  async advance(until) {
    await this.settle()
    for (;;) {
      let next
      for (const [id, timer] of this.timers)
        if (timer.at <= until && (!next || timer.at < next.timer.at)) next = { id, timer }
      if (!next) break
      this.timers.delete(next.id)
      this.time = Math.max(this.time, next.timer.at)
      next.timer.f()
      await this.settle()
    }
    this.time = until
  }
}
