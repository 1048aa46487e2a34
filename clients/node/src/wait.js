/** Ends waits. Unlike an AbortSignal it has any number of listeners without a warning. */
export class Stop {
  constructor() {
    this.done = false
    /** @type {unknown} */
    this.reason = undefined
    /** @type {Set<() => void>} */
    this.listeners = new Set()
  }

  /** @param {unknown} [reason] */
  end(reason) {
    if (this.done) return
    this.done = true
    this.reason = reason
    const listeners = [...this.listeners]
    this.listeners.clear()
    for (const f of listeners) f()
  }

  /**
   * Calls f once, when this ends.
   * @param {() => void} f
   * @returns {() => void} takes it back
   */
  on(f) {
    if (this.done) {
      f()
      return () => {}
    }
    this.listeners.add(f)
    return () => { this.listeners.delete(f) }
  }

  /**
   * Ends this when a signal is aborted.
   * @param {AbortSignal | undefined} signal
   * @returns {() => void} takes that back
   */
  follow(signal) {
    if (!signal) return () => {}
    if (signal.aborted) {
      this.end(signal.reason)
      return () => {}
    }
    const abort = () => this.end(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    return () => signal.removeEventListener('abort', abort)
  }
}

// How long handlers may follow each other, in ms, before the event loop reads what the store and the broker sent.
const READ_EVERY = 50

let turned = 0
/** @type {Promise<void> | undefined} */
let turning

/**
 * Lets the event loop read what has arrived, if its last turn here was 50 ms ago or more. Handlers that never await
 * would keep it from reading.
 */
export async function turn() {
  while (performance.now() - turned >= READ_EVERY) {
    turning ??= new Promise((resolve) => {
      // The first one runs before the next read if a read led here, so a second one follows.
      setImmediate(() => setImmediate(() => {
        turning = undefined
        turned = performance.now()
        resolve()
      }))
    })
    await turning
  }
}

const LONGEST = 2 ** 31 - 1 // of a timer

/**
 * Waits. It reports false if stop ended first.
 * @param {number} ms
 * @param {Stop} stop
 * @returns {Promise<boolean>}
 */
export function pause(ms, stop) {
  if (stop.done) return Promise.resolve(false)
  return new Promise((resolve) => {
    const off = stop.on(() => { clearTimeout(timer); resolve(false) })
    const timer = setTimeout(() => { off(); resolve(true) }, Math.min(ms, LONGEST))
  })
}

/** There was no answer in time. */
export class NoAnswerError extends Error {}

/**
 * The result of a promise, or a NoAnswerError after ms. The promise may go on.
 * @template T
 * @param {Promise<T>} promise
 * @param {number} ms
 * @param {string} what was waited for
 * @returns {Promise<T>}
 */
export async function within(promise, ms, what) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer
  promise.catch(() => {}) // its late failure is of no interest
  try {
    return await Promise.race([promise, new Promise((_, reject) => {
      timer = setTimeout(() => reject(new NoAnswerError(`${what}: no answer within ${ms} ms`)), ms)
    })])
  } finally {
    clearTimeout(timer)
  }
}
