/**
 * Doubles from 100 ms with each failed attempt up to 30 s, and takes off a random part of up to a half, so that messages which
 * failed together do not come back together.
 * @param {number} failed attempts so far, 1 after the first
 * @returns {number} ms
 */
export function defaultBackoff(failed: number): number;
/**
 * The wait before a step is sent again to a store that did not take it.
 * @param {number} times
 * @returns {number} ms
 */
export function storeBackoff(times: number): number;
/** @param {number} first @param {number} most @param {number} n */
export function doubled(first: number, most: number, n: number): number;
/** @param {number} ms */
export function jitter(ms: number): number;
export namespace chance {
    let draw: () => number;
}
