/**
 * The options with every default in place.
 * @param {SettlerOptions} o
 * @param {string[]} [others] options that the caller reads itself
 * @returns {Settings}
 */
export function settingsOf(o: SettlerOptions, others?: string[]): Settings;
/** @param {string} field @param {unknown} value @param {boolean} ok @param {string} want */
export function need(field: string, value: unknown, ok: boolean, want: string): void;
export type Logger = {
    info: (text: string, fields?: object) => void;
    warn: (text: string, fields?: object) => void;
    error: (text: string, fields?: object) => void;
    /**
     * if absent, retries are not logged
     */
    debug?: ((text: string, fields?: object) => void) | undefined;
};
/**
 * What became of a delivery. A stale one was acked because another copy of the message takes its place.
 */
export type Outcome = "ack" | "stale" | "requeue" | "dead-letter" | "leave";
/**
 * What the observer gets: outcomes, and before them 'retry' (counted, and waits), 'isolate' (it may have killed a process) and
 * 'hold' (the store does not reply, or the dead-letter route is broken); 'undecodable' is about a session.
 */
export type Event = {
    outcome: Outcome | "retry" | "isolate" | "hold" | "undecodable";
    vhost: string;
    queue: string;
    message?: import("amqplib").ConsumeMessage | undefined;
    /**
     * of the attempt; 0: the handler was not called
     */
    number?: number | undefined;
    /**
     * unique to the attempt; absent if nothing asked for it
     */
    token?: string | undefined;
    /**
     * counted so far, as far as it is known
     */
    failures?: number | undefined;
    /**
     * the same
     */
    crashes?: number | undefined;
    /**
     * of attempts, as far as it is known
     */
    limit?: number | undefined;
    /**
     * of a failed attempt or dead letter
     */
    cause?: string | undefined;
    /**
     * ms since this process received the delivery
     */
    held?: number | undefined;
    /**
     * ms, of a retry
     */
    wait?: number | undefined;
    error?: unknown;
};
/**
 * Takes the steps that count a message. A Counter is one.
 */
export type Steps = {
    start: (a: import("./counter.js").CountedAttempt, mode: import("./decide.js").Mode, limit: number, options?: {
        timeout?: number;
    }) => Promise<import("./reply.js").Reply>;
    begun: import("./counter.js").Counter["begun"];
    fail: (a: import("./counter.js").CountedAttempt, failure: import("./counter.js").Failure, options?: {
        timeout?: number;
    }) => Promise<import("./reply.js").Reply>;
    end: (a: import("./counter.js").CountedAttempt, succeeded: boolean, options?: {
        timeout?: number;
    }) => Promise<unknown>;
    /**
     * ms that a record is kept
     */
    ttl?: number | undefined;
};
export type SettlerOptions = {
    /**
     * that the deliveries come from
     */
    queue: string;
    /**
     * of the connection; '/' if absent
     */
    vhost?: string | undefined;
    /**
     * shared by all consumers of the queue; its ttl at least handlerTimeout + 3/4 of consumerTimeout + a minute
     */
    counter: Steps;
    /**
     * after the first failed attempt; 3 if absent, 0 is none, at most 1000. An operator may override it
     */
    maxRetries?: number | undefined;
    /**
     * ms: a message that fails later than this after its first failed attempt is dead-lettered; 0 or absent: no such limit. An operator may override it
     */
    maxAge?: number | undefined;
    /**
     * where a failed message waits for its next attempt; 'requeue' if absent
     */
    retry?: "requeue" | "in-place" | undefined;
    /**
     * of messages that may have killed a process; 'suspects' if absent
     */
    isolation?: "suspects" | "off" | undefined;
    /**
     * ms that a message waits after so many failed attempts; 100 ms to 30 s if absent
     */
    backoff?: ((failed: number) => number) | undefined;
    /**
     * ms of one attempt; 5 minutes if absent, Infinity is none, at most half the consumerTimeout
     */
    handlerTimeout?: number | undefined;
    /**
     * ms: the broker's delivery acknowledgement timeout; 30 minutes if absent, a minute at least
     */
    consumerTimeout?: number | undefined;
    /**
     * returns the id of a message; if absent, its message id
     */
    key?: ((message: import("amqplib").ConsumeMessage) => string | Buffer | undefined) | undefined;
    /**
     * names this process to operators; the host's name and the process id if absent
     */
    holder?: string | undefined;
    /**
     * gets every outcome
     */
    observer?: ((event: Event) => void) | undefined;
    /**
     * such as console: gets what happens to sessions, each dead letter as a warning and each
     * retry at debug; silent if absent
     */
    logger?: Logger | undefined;
};
export type Settings = Required<Omit<SettlerOptions, "key">> & Pick<SettlerOptions, "key">;
