import { createHash } from 'node:crypto'

/** Begins the keys of a Counter without a prefix of its own. Its number is the version of the record's layout. */
export const DEFAULT_PREFIX = 'strikes:1'

/**
 * Percent-encodes a name, so that no slash or brace in it makes two queues equal or chooses another slot of a Cluster.
 * @param {string | Buffer} name
 * @returns {string}
 */
export function encode(name) {
  let out = ''
  for (const byte of Buffer.from(name)) {
    const c = String.fromCharCode(byte)
    out += /[A-Za-z0-9\-_.~]/.test(c) ? c : '%' + byte.toString(16).toUpperCase().padStart(2, '0')
  }
  return out
}

/**
 * @param {string | Buffer} bytes
 * @param {number} length in bytes
 */
function hash(bytes, length) {
  return createHash('sha256').update(Buffer.from(bytes)).digest('hex').slice(0, 2 * length)
}

/**
 * The name of a record in the index of its queue.
 * @param {string | Buffer} id
 * @param {string | Buffer} generation
 */
export function member(id, generation) {
  return hash(id, 16) + ':' + hashGeneration(generation)
}

/**
 * The short form of a generation in the key of its record.
 * @param {string | Buffer} generation
 */
export function hashGeneration(generation) {
  return generation.length === 0 ? '0' : hash(generation, 8)
}

/**
 * Begins every key of a queue.
 * @param {string} prefix
 * @param {string | Buffer} vhost
 * @param {string | Buffer} queue
 */
export function queueKey(prefix, vhost, queue) {
  return `${prefix}:{${encode(vhost)}/${encode(queue)}}:`
}

/**
 * The keys of a message's record and of its queue, as scripts/record.lua describes them.
 * @param {{
 *   vhost: string | Buffer, queue: string | Buffer, id: string | Buffer, generation?: string | Buffer
 * }} message
 * @param {string} [prefix]
 */
export function keys(message, prefix = DEFAULT_PREFIX) {
  const q = queueKey(prefix, message.vhost, message.queue)
  return {
    index: q + 'index', override: q + 'limit', tombstones: q + 'tombstones', dead: q + 'dead',
    record: q + 'r:' + member(message.id, message.generation ?? ''),
  }
}

/**
 * The keys of a queue that scripts/control.lua describes.
 * @param {string | Buffer} vhost
 * @param {string | Buffer} queue
 * @param {string} [prefix]
 */
export function controlKeys(vhost, queue, prefix = DEFAULT_PREFIX) {
  const q = queueKey(prefix, vhost, queue)
  return { pause: q + 'pause', consumers: q + 'consumers', skips: q + 'skips' }
}
