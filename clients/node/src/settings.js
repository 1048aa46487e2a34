import { types } from 'node:util'
import { defaultBackoff } from './backoff.js'
import { FieldError } from './errors.js'
import { thisProcess } from './token.js'

/**
 * @typedef {object} Logger
 * @property {(text: string, fields?: object) => void} info
 * @property {(text: string, fields?: object) => void} warn
 * @property {(text: string, fields?: object) => void} error
 * @property {(text: string, fields?: object) => void} [debug] if absent, retries are not logged
 */

/**
 * The end of a delivery. A superseded one was acked because another copy of the message takes its place.
 * @typedef {'ack' | 'superseded' | 'requeue' | 'dead-letter' | 'leave'} Outcome
 */

/**
 * The observer gets outcomes, and before them 'retry' (counted, and waits), 'not-counted' (waits, too),
 * 'isolate' (it may have killed a process) and 'hold'. A delivery is held while the store does not reply,
 * no message succeeds, or the dead-letter route is broken. 'undecodable' is about a session.
 * @typedef {object} Event
 * @property {Outcome | 'retry' | 'not-counted' | 'isolate' | 'hold' | 'undecodable'} outcome
 * @property {string} vhost
 * @property {string} queue
 * @property {import('amqplib').ConsumeMessage} [message]
 * @property {number} [number] of the attempt; 0: the handler was not called
 * @property {string} [token] unique to the attempt; absent if nothing asked for it
 * @property {number} [failures] counted so far, as far as it is known
 * @property {number} [crashes] the same
 * @property {number} [limit] of attempts, as far as it is known
 * @property {string} [cause] of a failed attempt or dead letter
 * @property {number} [elapsed] ms since this process received the delivery
 * @property {number} [wait] ms until the next attempt
 * @property {unknown} [error]
 */

/** @typedef {import('./counter.js').CountedAttempt} CountedAttempt */
/** @typedef {import('./counter.js').Failure} Failure */
/** @typedef {import('./decide.js').Mode} Mode */
/** @typedef {import('./reply.js').Reply} Reply */

/**
 * Takes the steps that count a message. A Counter is one.
 * @typedef {object} Steps
 * @property {(a: CountedAttempt, mode: Mode, limit: number, options?: { timeout?: number }) => Promise<Reply>} start
 * @property {import('./counter.js').Counter['begun']} begun
 * @property {(a: CountedAttempt, failure: Failure, options?: { timeout?: number }) => Promise<Reply>} fail
 * @property {(a: CountedAttempt, succeeded: boolean, options?: { timeout?: number }) => Promise<unknown>} end
 * @property {number} [ttl] ms that a record is kept
 */

/**
 * @typedef {object} SettlerOptions
 * @property {string} queue that the deliveries come from
 * @property {string} [vhost] of the connection; '/' if absent
 * @property {Steps} counter shared by all consumers of the queue;
 *   its ttl is at least handlerTimeout + 3/4 of consumerTimeout + a minute
 * @property {number} [maxRetries] after the first failed attempt; 3 if absent, 0 is none, at most 1000.
 *   An operator may override it
 * @property {number} [maxAge] ms: a message that fails later than this after its first failed attempt is
 *   dead-lettered; 0 or absent: no such limit. An operator may override it
 * @property {'requeue' | 'in-place'} [retry] where a failed message waits for its next attempt; 'requeue' if absent
 * @property {'suspects' | 'off'} [isolation] of messages that may have killed a process; 'suspects' if absent
 * @property {(failed: number) => number} [backoff] ms that a message waits after so many failed attempts;
 *   100 ms to 30 s if absent
 * @property {number} [handlerTimeout] ms of one attempt;
 *   5 minutes if absent, Infinity is none, at most half the consumerTimeout
 * @property {number} [consumerTimeout] ms:
 *   the broker's delivery acknowledgement timeout; 30 minutes if absent, a minute at least
 * @property {(message: import('amqplib').ConsumeMessage) => string | Buffer | number | undefined} [key] returns the id
 *   of a message: a number is whole, and stands for its digits; if absent, its message id
 * @property {string} [name] names this process to operators; the host's name and the process id if absent
 * @property {(event: Event) => void} [observer] gets every outcome
 * @property {Logger} [logger] such as console:
 *   gets the events of sessions, each dead letter as a warning and each retry at debug; silent if absent
 */

/** @typedef {Required<Omit<SettlerOptions, 'key'>> & Pick<SettlerOptions, 'key'>} Settings */

const OPTIONS = [
  'queue', 'vhost', 'counter', 'maxRetries', 'maxAge', 'retry', 'isolation', 'backoff', 'handlerTimeout',
  'consumerTimeout', 'key', 'name', 'observer', 'logger',
]

/**
 * Refuses an option that nothing reads. One that is undefined counts as left out.
 * @param {{ [name: string]: any }} options
 * @param {string[]} others that the caller reads itself
 */
function refuseUnknown(options, others) {
  const known = [...OPTIONS, ...others]
  for (const [name, value] of Object.entries(options)) {
    const plain = name.toLowerCase().replaceAll('_', '').replace(/(y|ies|s)$/, '')
    const same = plain && known.find((k) => k.toLowerCase().startsWith(plain))
    const hint = same ? `did you mean ${same}?` : `there are ${known.join(', ')}`
    const read = value === undefined || known.includes(name)
    need(name, value, read, `left out, because there is no such option (${hint})`)
  }
}

/**
 * The options with every default in place.
 * @param {SettlerOptions} o
 * @param {string[]} [others] options that the caller reads itself
 * @returns {Settings}
 */
export function settingsOf(o, others = []) {
  refuseUnknown(o, others)
  const s = {
    queue: o.queue, counter: o.counter, key: o.key, vhost: o.vhost ?? '/', maxRetries: o.maxRetries ?? 3,
    maxAge: o.maxAge ?? 0, retry: o.retry ?? 'requeue', isolation: o.isolation ?? 'suspects',
    backoff: o.backoff ?? defaultBackoff, handlerTimeout: o.handlerTimeout ?? 5 * 60_000,
    consumerTimeout: o.consumerTimeout ?? 30 * 60_000, name: o.name ?? thisProcess, observer: o.observer ?? (() => {}),
    logger: o.logger ?? { info() {}, warn() {}, error() {} }
  }
  validate(s)
  s.logger = harmless(s.logger)
  s.observer = unawaited(s.observer, s)
  s.backoff = unawaited(s.backoff, s)
  if (s.key) s.key = unawaited(s.key, s)
  return s
}

/**
 * Returns a logger that drops the errors of another one, because no program should end over a line that is not written.
 * @param {Logger} logger
 * @returns {Logger}
 */
function harmless(logger) {
  const line = (/** @type {'debug' | 'info' | 'warn' | 'error'} */ level) =>
    (/** @type {[string, object?]} */ ...args) => { (async () => logger[level]?.(...args))().catch(() => {}) }
  return { debug: logger.debug && line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
}

/**
 * Returns a function that calls f and logs the error if f returns a promise that is rejected. No code awaits
 * that promise, so Node.js would end the process.
 * @template {(...args: any[]) => any} F
 * @param {F} f
 * @param {Pick<Settings, 'logger' | 'queue'>} settings
 * @returns {F}
 */
export function unawaited(f, { logger, queue }) {
  const failed = (/** @type {unknown} */ error) =>
    logger.error('a callback returned a promise that was rejected', { queue, error })
  return /** @type {F} */ ((...args) => {
    const result = f(...args)
    if (typeof result?.then === 'function') result.then(undefined, failed)
    return result
  })
}

/** @param {Settings} s */
function validate(s) {
  const logger = /** @type {any} */ (s.logger)
  const logs = ['info', 'warn', 'error'].every((level) => typeof logger?.[level] === 'function')
  need('logger', logger, logs, 'an object with info, warn and error, such as console')
  need(
    'queue', s.queue, typeof s.queue === 'string' && s.queue !== '' && Buffer.byteLength(s.queue) <= 255,
    'the name of the queue to consume'
  )
  need('vhost', s.vhost, typeof s.vhost === 'string' && s.vhost !== '', 'the virtual host of the connection')
  need(
    'counter', s.counter,
    ['start', 'fail', 'end'].every((step) => typeof /** @type {any} */ (s.counter)?.[step] === 'function'),
    'made by dial or new Counter'
  )
  need(
    'maxRetries', s.maxRetries, Number.isInteger(s.maxRetries) && s.maxRetries >= 0 && s.maxRetries <= 1000,
    '0 to 1000'
  )
  need('maxAge', s.maxAge, Number.isFinite(s.maxAge) && s.maxAge >= 0, 'ms, 0 at least')
  need('retry', s.retry, ['requeue', 'in-place'].includes(s.retry), 'requeue or in-place')
  need('isolation', s.isolation, ['suspects', 'off'].includes(s.isolation), 'suspects or off')
  need('backoff', s.backoff, isPlain(s.backoff), 'a function of the number of failed attempts, and not async')
  need('key', s.key, s.key === undefined || isPlain(s.key), 'a function of a message, and not async')
  need('name', s.name, typeof s.name === 'string', 'a text')
  need('observer', s.observer, typeof s.observer === 'function', 'a function of an event')
  need(
    'consumerTimeout', s.consumerTimeout, Number.isFinite(s.consumerTimeout) && s.consumerTimeout >= 60_000,
    'ms: that of the broker, 60000 at least'
  )
  const held = s.consumerTimeout / 2
  need(
    'handlerTimeout', s.handlerTimeout,
    s.handlerTimeout === Infinity ||
      typeof s.handlerTimeout === 'number' && s.handlerTimeout > 0 && s.handlerTimeout <= held,
    `ms, at most ${held}, half the consumerTimeout`
  )
  const handler = s.handlerTimeout === Infinity ? s.consumerTimeout : s.handlerTimeout
  const least = handler + (s.consumerTimeout / 4) * 3 + 60_000
  need(
    'ttl of the counter', s.counter.ttl, s.counter.ttl === undefined || s.counter.ttl >= least,
    `${least} ms at least: a record could expire while its message is handled or held`
  )
}

/** Reports whether f is a function that is not async: its result is needed immediately. @param {unknown} f */
function isPlain(f) {
  return typeof f === 'function' && !types.isAsyncFunction(f)
}

/** @param {string} field @param {unknown} value @param {boolean} ok @param {string} want */
export function need(field, value, ok, want) {
  if (!ok) throw new FieldError(field, value, want)
}
