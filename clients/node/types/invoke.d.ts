/**
 * Calls the handler and notes how it ended.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<void>}
 */
export function invoke(s: Deliveries, d: Delivery): Promise<void>;
/** Which attempt at the message a handler makes. */
export class Attempt {
    /** @param {Delivery} d @param {number} last @param {number} fence */
    constructor(d: Delivery, last: number, fence: number);
    /** One more than the failed attempts that were counted so far. */
    number: number;
    /** The number after whose failure the message is dead-lettered, as far as it is known. */
    last: number;
    /**
     * Orders the deliveries of a message: a system behind the handler can refuse lower ones than the highest that it saw. 0 for
     * the first delivery of a new message.
     */
    fence: number;
    /** Unique to this attempt in all processes. */
    get token(): string;
    /** Is aborted at the handlerTimeout, when the session is lost, and when the time to drain is over. */
    get signal(): AbortSignal;
    /** @internal */
    get reason(): unknown;
    /** @internal @param {unknown} reason */
    abort(reason: unknown): void;
    #private;
}
export type Ended = {
    ok: boolean;
    thrown?: unknown;
};
export type Delivery = import("./delivery.js").Delivery;
export type Deliveries = import("./deliveries.js").Deliveries;
/**
 * Handles one message. A return, or a promise that resolves, means done: the message is acked. A throw is counted as a failed
 * attempt; reject, retryAfter and retryAtMost steer that. The handler does not settle the message.
 */
export type Handler = (message: import("amqplib").ConsumeMessage, attempt: Attempt) => unknown;
