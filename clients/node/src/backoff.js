/** Where chance comes from: a fraction below 1. Replaced where a schedule is to be repeated exactly. */
export const chance = { draw: Math.random }

/**
 * Doubles from 100 ms with each failed attempt up to 30 s, and takes off a random part of up to a half.
 * So messages that failed together do not come back together.
 * @param {number} failed attempts so far, 1 after the first
 * @returns {number} ms
 */
export function defaultBackoff(failed) {
  return jitter(doubled(100, 30_000, failed))
}

/**
 * The wait before a step is sent again to a store that did not take it.
 * @param {number} times
 * @returns {number} ms
 */
export function storeBackoff(times) {
  return jitter(doubled(50, 2000, times))
}

/** @param {number} first @param {number} most @param {number} n */
export function doubled(first, most, n) {
  return Math.min(first * 2 ** Math.min(Math.max(n - 1, 0), 40), most)
}

/** @param {number} ms */
export function jitter(ms) {
  return ms - Math.floor(chance.draw() * (ms / 2 + 1))
}
