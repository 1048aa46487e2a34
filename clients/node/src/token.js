import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'

/** Distinguishes the processes that handle one message: 48 random bits make two alike once in 10^14. */
let part = randomBytes(6).toString('base64url')
let of = process.pid
let last = 0

/**
 * A token that is unique in all processes: the random part of this process, and a number in it.
 * @returns {string}
 */
export function newToken() {
  if (of !== process.pid) { // forked without exec, which some tools do
    of = process.pid
    part = randomBytes(6).toString('base64url')
  }
  return `${part}-${(++last).toString(36)}`
}

/** Names this process to operators. */
export const thisProcess = `${hostname()}, pid ${process.pid}`
