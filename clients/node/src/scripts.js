import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** @param {string[]} parts */
function script(...parts) {
  const source = parts.map((name) => readFileSync(new URL(`../scripts/${name}.lua`, import.meta.url), 'utf8')).join('')
  return { source, sha1: createHash('sha1').update(source).digest('hex') }
}

/** A script and the hash by which the server knows it. @typedef {{ source: string, sha1: string }} Script */

/** The steps share their beginning. */
export const scripts = {
  start: script('record', 'start'),
  begun: script('record', 'begun'),
  fail: script('record', 'fail'),
  end: script('record', 'end'),
  control: script('control'),
  ask: script('record', 'ask'),
}
