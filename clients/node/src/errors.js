/** A setting that is refused. */
export class FieldError extends Error {
  /**
   * @param {string} field
   * @param {unknown} value that it has
   * @param {string} want
   */
  constructor(field, value, want) {
    super(`${field} must be ${want}, got ${shown(value)}`)
    this.name = 'FieldError'
    this.field = field
    this.value = value
    this.want = want
  }
}

/** @param {unknown} value */
function shown(value) {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 80))
  return typeof value === 'function' || typeof value === 'object' && value !== null ? typeof value : String(value)
}

/**
 * Why the store failed. 'denied', 'of another kind', 'not set up' (it has no database of that number) and 'foreign'
 * need an operator; the others pass.
 * @typedef {'unreachable' | 'slow' | 'read-only' | 'out of space' | 'loading' | 'busy' | 'failover' | 'denied' |
 *   'of another kind' | 'not set up' | 'foreign' | 'unexpected reply' | 'error'} Fault
 */

/** The store failed. Its text has no password and no argument of a command. */
export class StoreError extends Error {
  /**
   * @param {Fault} fault
   * @param {string} text
   * @param {unknown} [cause]
   */
  constructor(fault, text, cause) {
    super(`store ${fault}: ${text}`)
    this.name = 'StoreError'
    this.fault = fault
    // The error of a command has its arguments, which hold ids and reasons.
    Object.defineProperty(this, 'cause', { value: cause, enumerable: false, configurable: true })
  }
}

/** A delivery was held for as long as it may be: its session must end, and nothing was counted. */
export class WaitedTooLongError extends Error {
  /** @param {string} text @param {unknown} [cause] */
  constructor(text, cause) {
    super(text, { cause })
    this.name = 'WaitedTooLongError'
  }
}

/** An ack or nack could not be sent: the delivery returns to the queue. What was counted stays counted. */
export class SettlementError extends Error {
  /** @param {string} text @param {unknown} [cause] */
  constructor(text, cause) {
    super(text, { cause })
    this.name = 'SettlementError'
  }
}

/** Too many handlers of the process passed their deadline and still run: restart the process. */
export class StuckError extends Error {
  /** @param {string} text */
  constructor(text) {
    super(text)
    this.name = 'StuckError'
  }
}

/**
 * A message ended the session: amqplib cannot decode it, or (unconverted) the broker cannot convert it to AMQP 0.9.1.
 */
export class UndecodableError extends Error {
  /** @param {string} text @param {unknown} [cause] */
  constructor(text, cause) {
    super(text, { cause })
    this.name = 'UndecodableError'
    /**
     * The broker closed the connection with 541.
     * It does so after other internal errors too, so a single one proves nothing.
     */
    this.unconverted = isUnconverted(cause)
  }
}

/**
 * Whether the broker closed the connection as it does when it cannot convert a message to AMQP 0.9.1.
 * @param {unknown} why
 */
export function isUnconverted(why) {
  return /** @type {any} */ (why)?.code === 541
}

/** The broker closed the connection when it was asked how the queue was declared. */
export class UnreadableError extends Error {
  /** @param {unknown} [cause] */
  constructor(cause) {
    super('the broker closed the connection (541) when it was asked how the queue was declared', { cause })
    this.name = 'UnreadableError'
  }
}

/** The session broke while it was being stopped: the last acks may not have reached the broker. Nothing was counted. */
export class UncleanStopError extends Error {
  /** @param {string} text @param {unknown} [cause] */
  constructor(text, cause) {
    super(text, { cause })
    this.name = 'UncleanStopError'
  }
}

/** The queue, the store or a setting is refused: another session would meet the same. */
export class RefusedError extends Error {
  /** @param {string} text @param {unknown} [cause] */
  constructor(text, cause) {
    super(text, { cause })
    this.name = 'RefusedError'
  }
}

/**
 * The text of whatever was thrown.
 * @param {unknown} thrown
 * @returns {string}
 */
export function textOf(thrown) {
  try {
    return thrown instanceof Error ? thrown.name === 'Error' ? String(thrown.message) : String(thrown) : String(thrown)
  } catch {
    return `a value of type ${typeof thrown} that cannot be printed`
  }
}
