/**
 * Whether the broker closed the connection as it does when it cannot convert a message to AMQP 0.9.1.
 * @param {unknown} why
 */
export function isUnconverted(why: unknown): boolean;
/**
 * The text of whatever was thrown.
 * @param {unknown} thrown
 * @returns {string}
 */
export function textOf(thrown: unknown): string;
/** A setting that is refused. */
export class FieldError extends Error {
    /**
     * @param {string} field
     * @param {unknown} value that it has
     * @param {string} want
     */
    constructor(field: string, value: unknown, want: string);
    field: string;
    value: unknown;
    want: string;
}
/**
 * Why the store failed. 'denied', 'not a Redis' and 'foreign' need an operator; the others pass.
 * @typedef {'unreachable' | 'slow' | 'read-only' | 'out of memory' | 'loading' | 'busy' | 'failover' | 'denied' | 'not a Redis' | 'foreign' | 'unexpected reply' | 'error'} Fault
 */
/** The store failed. Its text has no password and no argument of a command. */
export class StoreError extends Error {
    /**
     * @param {Fault} fault
     * @param {string} text
     * @param {unknown} [cause]
     */
    constructor(fault: Fault, text: string, cause?: unknown);
    fault: Fault;
}
/** A delivery was held for as long as it may be: its session must end, and nothing was counted. */
export class HeldTooLongError extends Error {
    /** @param {string} text @param {unknown} [cause] */
    constructor(text: string, cause?: unknown);
}
/** An ack or nack could not be sent: the delivery returns to the queue. What was counted stays counted. */
export class SettlementError extends Error {
    /** @param {string} text @param {unknown} [cause] */
    constructor(text: string, cause?: unknown);
}
/** Too many handlers of the process passed their deadline and still run: restart the process. */
export class StuckError extends Error {
    /** @param {string} text */
    constructor(text: string);
}
/** A message ended the session: amqplib cannot decode it, or (unconverted) the broker cannot convert it to AMQP 0.9.1. */
export class UndecodableError extends Error {
    /** @param {string} text @param {unknown} [cause] */
    constructor(text: string, cause?: unknown);
    /** The broker closed the connection with 541. It does so after other internal errors too, so a single one proves nothing. */
    unconverted: boolean;
}
/** The session broke while it was being stopped: the last acks may not have reached the broker. Nothing was counted. */
export class UncleanStopError extends Error {
    /** @param {string} text @param {unknown} [cause] */
    constructor(text: string, cause?: unknown);
}
/** The queue, the store or a setting is refused: another session would meet the same. */
export class RefusedError extends Error {
    /** @param {string} text @param {unknown} [cause] */
    constructor(text: string, cause?: unknown);
}
/**
 * Why the store failed. 'denied', 'not a Redis' and 'foreign' need an operator; the others pass.
 */
export type Fault = "unreachable" | "slow" | "read-only" | "out of memory" | "loading" | "busy" | "failover" | "denied" | "not a Redis" | "foreign" | "unexpected reply" | "error";
