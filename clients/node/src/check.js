// The facts that AMQP alone reports about a queue. `strikes doctor QUEUE` also sees policies and bindings, by the
// management API.
import { isUnconverted, RefusedError, UnreadableError } from './errors.js'
import { NoAnswerError, within } from './wait.js'

const ANSWER = 10_000
const QUEUE_ANSWER = 9_000
const ACCESS_REFUSED = 403
const NOT_FOUND = 404

/**
 * The known facts about a queue.
 * @typedef {object} QueueFacts
 * @property {'classic' | 'quorum' | 'stream'} type
 * @property {{ [name: string]: unknown }} args
 * @property {string} [unread] why not all of them are known
 */

/**
 * Asks on a channel of its own, because a refusal closes the channel.
 * @template T
 * @param {any} model
 * @param {(channel: import('amqplib').Channel) => Promise<T>} ask
 * @returns {Promise<T>}
 */
async function onChannel(model, ask) {
  const channel = await within(
    /** @type {Promise<import('amqplib').Channel>} */ (model.createChannel()), ANSWER, 'opening a channel'
  )
  channel.on('error', () => {}) // the request itself fails
  try {
    return await within(ask(channel), ANSWER, 'checking the queue')
  } finally {
    within(channel.close(), ANSWER, 'closing a channel').catch(() => {})
  }
}

/**
 * Whether it exists; undefined if the user has no permission to see it.
 * @param {any} model
 * @param {(channel: import('amqplib').Channel) => Promise<unknown>} ask
 * @returns {Promise<boolean | undefined>}
 */
async function exists(model, ask) {
  try {
    await onChannel(model, ask)
    return true
  } catch (err) {
    const { code } = /** @type {any} */ (err)
    if (code === NOT_FOUND) return false
    if (code === ACCESS_REFUSED) return undefined
    throw err
  }
}

/**
 * Why the dead-letter route is known to be broken; undefined if it is not.
 * @param {any} model
 * @param {string} queue
 * @param {QueueFacts} facts
 * @returns {Promise<Error | undefined>}
 */
export async function checkRoute(model, queue, facts) {
  const exchange = facts.args['x-dead-letter-exchange']
  if (typeof exchange !== 'string') return undefined
  if (exchange !== '') {
    if ((await exists(model, (ch) => ch.checkExchange(exchange))) !== false) return undefined
    return new Error(
      `the dead-letter exchange ${JSON.stringify(exchange)} of queue ${JSON.stringify(queue)} does not exist, ` +
      'so dead letters would be lost; declare it with `strikes declare`'
    )
  }
  const key = facts.args['x-dead-letter-routing-key']
  // RabbitMQ 4.3.6 answers about a classic queue whose node was killed after a minute.
  const answers = (/** @type {import('amqplib').Channel} */ ch) =>
    within(Promise.resolve(ch.checkQueue(String(key))), QUEUE_ANSWER, 'checking the queue').catch((err) => {
      throw err instanceof NoAnswerError ? Object.assign(err, { code: NOT_FOUND }) : err
    })
  if (typeof key !== 'string' || (await exists(model, answers)) !== false) return undefined
  return new Error(
    `the dead-letter queue ${JSON.stringify(key)} of queue ${JSON.stringify(queue)} does not exist, or its node is ` +
    'down, so dead letters would be lost; declare it, or start the node'
  )
}

/**
 * Refuses a queue whose messages would be lost or reordered, as far as AMQP reports how it was declared. It throws an
 * UnreadableError if the broker closes the connection instead; then ask again with that text as unread.
 * @param {any} model
 * @param {{ queue: string, vhost: string, maxRetries: number, allowDrop: boolean, unread?: string }} need
 * @returns {Promise<QueueFacts>}
 */
export async function checkQueue(model, need) {
  const shown = JSON.stringify(need.queue)
  const found = await exists(model, (ch) => ch.checkQueue(need.queue))
  await refusePartitions(model, need.queue, found === true)
  if (found === undefined) throw new RefusedError(`queue ${shown}: the user has no permission on it`)
  if (!found) {
    throw new RefusedError(
      `queue ${shown} does not exist in virtual host ${JSON.stringify(need.vhost)}; declare it with \`strikes declare\``
    )
  }
  const facts = await readDeclared(model, need)
  const wrong = judge(facts, versionOf(model), need)
  if (wrong) throw new RefusedError(`queue ${shown} is refused: ${wrong}`)
  const broken = need.allowDrop ? undefined : await checkRoute(model, need.queue, facts)
  if (broken) throw new RefusedError(`queue ${shown} is refused: ${broken.message}`, broken)
  return facts
}

const MOST_PARTITIONS = 256
const MARGIN = 3

/**
 * Refuses a queue that strikes declare --partitions made, and a partition of one.
 * @param {any} model
 * @param {string} queue
 * @param {boolean} found there is a queue of this name
 */
async function refusePartitions(model, queue, found) {
  const [, name, number] = found ? /^(.+)\.(\d+)$/.exec(queue) ?? [] : ['', queue, '0']
  if (name === undefined || !await exists(model, (ch) => ch.checkExchange(name))) return
  let n = 0
  while (n < MOST_PARTITIONS && (await exists(model, (ch) => ch.checkQueue(`${name}.${n}`)))) n++
  if (Number(number) >= n || !(await exists(model, (ch) => ch.checkExchange(`${name}.hash${n}`)))) return
  throw new RefusedError(
    `queue ${JSON.stringify(name)} has ${n} partitions, and this client keeps no order: ` +
    `consume them with strikes consume ${name} --ordered --partitions ${n}, which runs a command for each message, ` +
    'or posts it to your program (push mode, --http URL)'
  )
}

/**
 * Returns the defect of a queue and its repair; empty if none is known.
 * @param {QueueFacts} facts
 * @param {number} version major * 100 + minor; 0: not known
 * @param {{ maxRetries: number, allowDrop: boolean }} need
 * @returns {string}
 */
export function judge({ type, args, unread }, version, { maxRetries, allowDrop }) {
  const limit = args['x-delivery-limit']
  if (type === 'stream') return 'it is a stream, which returns no message'
  if (unread !== undefined && limit === undefined) return ''
  if (type === 'quorum' && version > 0) {
    if (limit === undefined && version < 400)
      return 'this broker requeues to its tail; declare it with x-delivery-limit'
    if (typeof limit === 'number' && limit < 0 && version < 400)
      return 'this broker discards a message at its first return; declare it with a positive x-delivery-limit'
    if (typeof limit === 'number' && limit < 0 && version < 403)
      return 'this broker requeues to its tail; declare it with a positive x-delivery-limit'
    const returns = typeof limit === 'number' && limit >= 0 ? limit : limit === undefined ? 20 : Infinity
    // A message that kills its process each time is delivered MARGIN times more.
    const least = maxRetries + MARGIN + 1
    if (returns < least)
      return `its delivery limit ${returns} is too low for ${maxRetries} retries, which need ${least}; ` +
        `delete it once it is empty, and declare it with x-delivery-limit ${Math.max(1000, least)}`
  }
  if (typeof args['x-dead-letter-exchange'] !== 'string' && !allowDrop && unread === undefined) {
    return 'it has no x-dead-letter-exchange, so rejected messages would be lost, or a policy sets it, ' +
      'which AMQP does not report; declare it with `strikes declare`, run `strikes doctor`, or pass allowDrop'
  }
  return ''
}

/** @param {any} model */
function versionOf(model) {
  const text = String(model.connection?.serverProperties?.version ?? '')
  const found = /^(\d+)\.(\d+)/.exec(text)
  return found ? Number(found[1]) * 100 + Number(found[2]) : 0
}

// The broker compares few arguments, and each refusal names one.
const MOST = 64

// It keeps a declaration from ever creating a queue: it is an argument of streams, refused for a new queue of any
// other type and ignored if the queue exists. Measured on 3.10.8, 4.0.5 and 4.3.6.
const PROBE = { 'x-max-age': { '!': 'int32', value: -1 } }

// The text of a refusal is a short string. The broker cuts a longer one, so that it ends in "...". On 4.0.5 and 4.3.6
// it closes the connection with 541 instead if the cut is in a character that is not ASCII.
const MOST_BYTES = 255
const AROUND = Buffer.byteLength(
  "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-routing-key' for queue '' in vhost '': " +
  "received none but current is the value '.dlq' of type 'longstr'"
)

/**
 * Whether the broker can send its refusals for this queue: the names are ASCII, or the text fits in 255 bytes.
 * @param {string} vhost
 * @param {string} queue
 */
export function expressible(vhost, queue) {
  const bytes = AROUND + Buffer.byteLength(vhost) + 2 * Buffer.byteLength(queue)
  return bytes <= MOST_BYTES || !/[^\0-\x7f]/.test(vhost + queue)
}

/**
 * The values to try if the broker names an argument and cuts its value. It refuses a wrong one.
 * @param {string} queue
 * @returns {{ [name: string]: unknown[] }}
 */
function guessesFor(queue) {
  return {
    'x-queue-type': ['quorum', 'classic', 'stream'],
    'x-dead-letter-exchange': [`${queue}.dlx`, ''],
    'x-dead-letter-routing-key': [`${queue}.dlq`, queue],
    'x-delivery-limit': [1000],
    'x-overflow': ['reject-publish', 'drop-head', 'reject-publish-dlx'],
    'x-dead-letter-strategy': ['at-least-once', 'at-most-once'],
    'x-single-active-consumer': [true, false],
  }
}

/**
 * Learns how a queue was declared from the refusals of declarations that differ: each names one argument and its value.
 * @param {any} model
 * @param {{ queue: string, vhost: string, unread?: string }} need
 * @returns {Promise<QueueFacts>}
 */
async function readDeclared(model, { queue, vhost, unread }) {
  /** @type {any} */
  const how = { durable: true, autoDelete: false, arguments: {} }
  if (unread !== undefined) return facts(how, unread)
  if (!expressible(vhost, queue)) return facts(how, 'its name is not ASCII and too long for an answer over AMQP')
  const guesses = guessesFor(queue)
  for (let n = 0; n < MOST; n++) {
    const refusal = await redeclare(model, queue, how)
    if (refusal === undefined) return facts(how)
    if (/** @type {any} */ (refusal).code === ACCESS_REFUSED) {
      return facts(how, refusal.message.includes('reserved prefix')
        ? 'AMQP does not answer for names that begin with amq.'
        : 'the user lacks the configure permission on it')
    }
    const different = parseDifference(refusal.message, vhost, queue)
    if (!different)
      return facts(how, `the broker's refusal of a redeclaration is not understood: ${refusal.message}`)
    const { name, value, cut } = different
    if (name === 'durable') how.durable = !how.durable
    else if (name === 'auto_delete') how.autoDelete = !how.autoDelete
    else if (cut) {
      how.arguments[name] = guesses[name]?.shift()
      if (how.arguments[name] === undefined) {
        delete how.arguments[name]
        return facts(how, `the broker's answer about ${name} was cut at ${MOST_BYTES} bytes`)
      }
    } else if (value === undefined && name === 'x-queue-type') how.arguments[name] = 'classic'
    else how.arguments[name] = value
    if (how.arguments['x-queue-type'] === 'stream') return facts(how) // the probe always differs from a stream
  }
  return facts(how, `the broker still refuses a redeclaration after ${MOST} attempts`)
}

/** @param {any} how @param {string} [unread] @returns {QueueFacts} */
function facts(how, unread) {
  return { type: how.arguments['x-queue-type'] ?? 'classic', args: how.arguments, unread }
}

/** @param {any} model @param {string} queue @param {any} how */
async function redeclare(model, queue, how) {
  /** @type {unknown} */
  let closed
  const failed = (/** @type {unknown} */ err) => { closed = err }
  model.on('error', failed)
  try {
    await onChannel(model, (ch) => ch.assertQueue(queue, { ...how, arguments: { ...how.arguments, ...PROBE } }))
    return undefined
  } catch (err) {
    if ([403, 405, 406].includes(/** @type {any} */ (err).code)) return /** @type {Error} */ (err)
    if (isUnconverted(closed)) throw new UnreadableError(closed)
    throw err
  } finally {
    model.off('error', failed)
  }
}

/**
 * Reads the text of a 406. It has the same forms on 3.10.8, 4.0.5 and 4.3.6.
 * @param {string} text
 * @param {string} vhost
 * @param {string} queue
 * @returns {{ name: string, value?: unknown, cut?: boolean } | undefined}
 */
export function parseDifference(text, vhost, queue) {
  const found = /inequivalent arg '([^']*)'/.exec(text)
  if (!found) return undefined
  if (/\.\.\."?$/.test(text)) return { name: found[1], cut: true }
  const where = ` for queue '${queue}' in vhost '${vhost}': received `
  const begin = text.indexOf(where)
  const current = text.indexOf(' but current is ', begin + where.length)
  if (begin < 0 || current < 0) return undefined
  // amqplib quotes the text: 406 (PRECONDITION-FAILED) with message "…"
  const value = text.slice(current + ' but current is '.length).replace(/"$/, '')
  if (value === 'none') return { name: found[1], value: undefined }
  const typed = /^the value '(.*)' of type '([^']*)'$/s.exec(value)
  if (!typed) return /^'.*'$/s.test(value) ? { name: found[1], value: value.slice(1, -1) } : undefined
  return { name: found[1], value: valueOf(typed[1], typed[2]) }
}

/** @param {string} value @param {string} type */
function valueOf(value, type) {
  if (type === 'longstr') return value
  if (type === 'bool') return value === 'true'
  return Number(value)
}

