/**
 * The record of one generation of a message in the store. Times are ms since 1970 by the store's clock; 0 means absent.
 * @typedef {object} Record
 * @property {number} failures counted attempts whose handler failed
 * @property {number} crashes counted attempts whose process died
 * @property {number} starts attempts that START let run
 * @property {number} fence of the last of them, in µs
 * @property {boolean} suspect an attempt was found open: the message may have killed a process
 * @property {string} state '' live, 'exhausted', 'skip' or 'done'
 * @property {number} binds until when the tombstone is in force
 * @property {number} due when the next attempt may begin
 * @property {number} wait ms that the last failure asked for
 * @property {number} first time of the first counted attempt
 * @property {number} last time of the last
 * @property {string} cause of the last counted attempt
 * @property {string} openToken of the open attempt; empty: none
 * @property {string} openMode 'shared', 'isolated' or empty
 * @property {number} openSince
 * @property {number} listed when it was last moved in the index
 * @property {number} limit of the last step's consumer, before override and own
 * @property {number} own that an operator set for this message alone, in attempts; 0: none
 * @property {number} firsts 1: a first attempt failed; 2: two messages may have this id
 * @property {{ [token: string]: string }} tokens 'f' failed, 'c' crashed, 'e' ended and not counted
 * @property {Buffer} id
 * @property {Buffer} generation
 * @property {Buffer} consumer
 * @property {Buffer} notes
 * @property {Buffer} history
 * @property {Buffer} reason
 * @property {Move | undefined} moved undefined: the message was never moved to a delay queue
 */

/**
 * @typedef {object} Move
 * @property {number} copyNumber the highest number of a confirmed copy
 * @property {number} top the highest number that a copy was given
 * @property {number} until the end of the lease of the move under way; 0: none is
 * @property {string} mover the token of the attempt whose message is being moved
 * @property {string} body the fingerprint of the message; x if two messages have its id
 */

// The words of the first line, as scripts/record.lua reads them.
const NUMBERS = String.raw`^\d+ \d+ \d+ \d+ \d \S+ \d+ \d+ \d+ \d+ \d+ \S+ \S+ \S+ \d+ \d+ \d+ \d+ \d \S+`
const MOVE = String.raw`\d+:\d+:\d+:[\w.-]+:[A-Za-z0-9]+`
const LINE = new RegExp(String.raw`${NUMBERS} \d+ \d+ \d+ \d+ \d+( ${MOVE})?$`)
const LENGTHS = 20 // the first of the five lengths
const MOVED = 25 // only of a message that was moved

/**
 * Reads a record, which scripts/record.lua describes; undefined if it is none.
 * @param {Buffer} bytes
 * @returns {Record | undefined}
 */
export function parseRecord(bytes) {
  const end = bytes.indexOf('\n')
  const line = bytes.toString('latin1', 0, Math.max(end, 0))
  if (!LINE.test(line)) return undefined
  const words = line.split(' ')
  const parts = []
  let at = end + 1
  for (const length of words.slice(LENGTHS, MOVED)) {
    const next = at + number(length)
    if (next > bytes.length) return undefined
    parts.push(bytes.subarray(at, next))
    at = next
  }
  const [id, generation, consumer, notes, history] = parts
  const n = words.map(number)
  return {
    failures: n[0], crashes: n[1], starts: n[2], fence: n[3], suspect: words[4] === '1', state: word(words[5]),
    binds: n[6], due: n[7], wait: n[8], first: n[9], last: n[9] > 0 ? n[9] + n[10] : 0, cause: word(words[11]),
    openToken: word(words[12]), openMode: word(words[13]), openSince: n[14], listed: n[15], limit: n[16], own: n[17],
    firsts: n[18], tokens: parseTokens(words[19]), id, generation, consumer, notes, history,
    reason: bytes.subarray(at), moved: parseMove(words[MOVED])
  }
}

/**
 * @param {string | undefined} text
 * @returns {Move | undefined}
 */
function parseMove(text) {
  if (text === undefined) return undefined
  const [copyNumber, top, until, mover, body] = text.split(':')
  return { copyNumber: number(copyNumber), top: number(top), until: number(until), mover: word(mover), body }
}

/** @param {string} text */
function word(text) {
  return text === '.' ? '' : text
}

/** @param {string} text */
function number(text) {
  return /^\d+$/.test(text) ? Number(text) : 0
}

/** @param {string} text */
function parseTokens(text) {
  /** @type {{ [token: string]: string }} */
  const out = Object.create(null)
  for (const entry of text.split(';')) {
    const [token, kind] = entry.split('=')
    if (kind?.length === 1) out[token] = kind
  }
  return out
}
