/**
 * Opens a Redis for a Counter. It connects in the background; close it with counter.close().
 * @param {string} url redis://, rediss:// or unix://
 * @param {{ prefix?: string, ttl?: number, redis?: import('ioredis').RedisOptions }} [options] of the Counter; redis: more of
 *   ioredis, such as sentinels and name. Settings by which ioredis would queue or repeat commands have no effect
 * @returns {Counter}
 */
export function dial(url: string, { redis, ...options }?: {
    prefix?: string;
    ttl?: number;
    redis?: import("ioredis").RedisOptions;
}): Counter;
/** How long a record outlives its last write, in ms: 7 days. */
export const DEFAULT_TTL: number;
/** @typedef {import('./reply.js').Reply} Reply */
/** @typedef {import('./decide.js').Mode} Mode */
/**
 * Why an attempt failed.
 * @typedef {'failed' | 'panicked' | 'timed-out' | 'rejected'} Cause
 */
/**
 * What is counted: one generation of one message in one queue.
 * @typedef {object} Message
 * @property {string} vhost
 * @property {string} queue
 * @property {string | Buffer} id must not be empty; bytes if it is not UTF-8
 * @property {string | Buffer} [generation] empty until the message is dead-lettered and comes back
 */
/**
 * One call of a handler for a message.
 * @typedef {Message & CountedOnly} CountedAttempt
 */
/**
 * @typedef {object} CountedOnly
 * @property {string} token unique to this attempt: 1 to 64 of A-Z a-z 0-9 _ -
 * @property {string} [holder] the process, shown to operators
 * @property {boolean} [first] the delivery is not redelivered, and this is its first attempt
 * @property {number} [received] when this process received the delivery, by performance.now(); only a first attempt needs it
 * @property {number} [floor] the fence that the delivery carries
 * @property {number} [maxAge] ms; a message that fails later than this after its first counted attempt is exhausted; an override replaces it; 0: none
 * @property {string} [later] of a copy that waited in the later lane: the last argument of START and FAIL, as docs/protocol.md says
 */
/**
 * A failed attempt, as FAIL counts it.
 * @typedef {object} Failure
 * @property {number} limit counted attempts at which the message is exhausted; 0: it is exhausted now; at most 1001
 * @property {number} [wait] ms until the next attempt may begin
 * @property {Cause} [cause] 'failed' if absent
 * @property {string | Buffer} [reason] for people; cut to 1024 bytes
 * @property {number} [ran] ms that the handler ran, for people
 * @property {number} [atMost] counted attempts at which a message with this failure is exhausted; it only lowers the limit. 0: none
 */
/**
 * What operators want of the consumers of a queue.
 * @typedef {object} Control
 * @property {boolean} paused
 * @property {string} by who paused or resumed it
 * @property {string} why
 * @property {number} at ms since 1970
 * @property {Set<string>} skips names of the messages that were skipped, as member() returns them
 */
/** Counts on Redis. All consumers of a queue, in any language, share its counts. */
export class Counter {
    /**
     * @param {import('ioredis').Redis} redis of its own, with the settings that dial makes; the caller closes it
     * @param {object} [options]
     * @param {string} [options.prefix] of every key; 'strikes:1' if absent. Two brokers that share a Redis need one each
     * @param {number} [options.ttl] ms that a record outlives its last write; 7 days if absent, a minute at least
     */
    constructor(redis: import("ioredis").Redis, { prefix, ttl }?: {
        prefix?: string | undefined;
        ttl?: number | undefined;
    });
    prefix: string;
    /** ms that a record is kept after its last write */
    ttl: number;
    redis: import("ioredis").default;
    store: Store;
    /** @type {Map<string, string>} */
    queueKeys: Map<string, string>;
    /**
     * Asks whether an attempt at a redelivered message may run, and opens it. After an error it may or may not be open: start
     * again with the same token, or end. Mode 'isolated' only reserves the attempt: call begun before its handler.
     * @param {CountedAttempt} attempt
     * @param {Mode} mode what else runs in this process meanwhile
     * @param {number} limit counted attempts at which the message is exhausted, 1 to 1001
     * @param {{ timeout?: number }} [options] ms; 1000 if absent
     * @returns {Promise<Reply>}
     */
    start(attempt: CountedAttempt, mode: Mode, limit: number, { timeout }?: {
        timeout?: number;
    }): Promise<Reply>;
    /**
     * Makes an isolated attempt countable that START let run: from now on the next START counts a crash if it is still open. Call it
     * immediately before the handler, and call the handler only after the verdict BEGUN. After GONE the attempt is not open: end it,
     * and begin another one. After an error it may or may not be countable: call begun again with the same token, or end.
     * @param {CountedAttempt} attempt
     * @param {{ timeout?: number }} [options] ms; 1000 if absent
     * @returns {Promise<Reply>}
     */
    begun(attempt: CountedAttempt, { timeout }?: {
        timeout?: number;
    }): Promise<Reply>;
    /**
     * Counts a failed attempt. After an error it may or may not be counted: fail again with the same token, which counts it once.
     * @param {CountedAttempt} attempt
     * @param {Failure} failure
     * @param {{ timeout?: number }} [options] ms; 1000 if absent
     * @returns {Promise<Reply>}
     */
    fail(attempt: CountedAttempt, failure: Failure, { timeout }?: {
        timeout?: number;
    }): Promise<Reply>;
    /**
     * Closes an attempt that START let run and that is not counted. If it was counted as a crash meanwhile, that is reversed. After
     * an error it may or may not be closed: end again with the same token.
     * @param {CountedAttempt} attempt
     * @param {boolean} succeeded
     * @param {{ timeout?: number }} [options] ms; 1000 if absent
     * @returns {Promise<Reply>}
     */
    end(attempt: CountedAttempt, succeeded: boolean, { timeout }?: {
        timeout?: number;
    }): Promise<Reply>;
    /**
     * @param {'start' | 'begun' | 'fail' | 'end'} name
     * @param {CountedAttempt} a
     * @param {number} limit
     * @param {(string | number | Buffer)[]} own arguments of the step
     * @param {number} timeout
     */
    step(name: "start" | "begun" | "fail" | "end", a: CountedAttempt, limit: number, own: (string | number | Buffer)[], timeout: number): Promise<import("./reply.js").Reply>;
    /**
     * The keys and arguments of a step, which scripts/record.lua describes.
     * @param {CountedAttempt} a
     * @param {number} limit
     * @param {(string | number | Buffer)[]} own
     */
    argumentsOf(a: CountedAttempt, limit: number, own: (string | number | Buffer)[]): {
        keys: string[];
        args: (string | number | Buffer<ArrayBufferLike>)[];
    };
    /** @param {string} vhost @param {string} queue */
    queueKey(vhost: string, queue: string): string;
    /**
     * Reads what operators want of the consumers of a queue, and reports the reader to them. After an error the last Control stands.
     * @param {string} vhost
     * @param {string} queue
     * @param {{ token: string, holder: string, state: 'consuming' | 'stopped' | 'left' }} reader
     * @param {{ timeout?: number }} [options] ms; 500 if absent
     * @returns {Promise<Control>}
     */
    control(vhost: string, queue: string, reader: {
        token: string;
        holder: string;
        state: "consuming" | "stopped" | "left";
    }, { timeout }?: {
        timeout?: number;
    }): Promise<Control>;
    /**
     * Reads how many lanes of a queue are held by dead letters.
     * @param {string} vhost
     * @param {string} queue
     * @param {{ timeout?: number }} [options] ms; 500 if absent
     * @returns {Promise<number>}
     */
    heldLanes(vhost: string, queue: string, { timeout }?: {
        timeout?: number;
    }): Promise<number>;
    /**
     * Adds a session that an undecodable message ended, for status and doctor.
     * @param {string} vhost
     * @param {string} queue
     * @param {{ holder: string, after: string | Buffer, error: string, unconverted?: boolean }} note
     * @param {{ timeout?: number }} [options] ms; 1000 if absent
     */
    noteUndecodable(vhost: string, queue: string, { holder, after, error, unconverted }: {
        holder: string;
        after: string | Buffer;
        error: string;
        unconverted?: boolean;
    }, { timeout }?: {
        timeout?: number;
    }): Promise<void>;
    /** Throws if the store does not reply, or refuses. */
    check(): Promise<void>;
    /** Closes the client. Steps under way fail. */
    close(): void;
}
export type Reply = import("./reply.js").Reply;
export type Mode = import("./decide.js").Mode;
/**
 * Why an attempt failed.
 */
export type Cause = "failed" | "panicked" | "timed-out" | "rejected";
/**
 * What is counted: one generation of one message in one queue.
 */
export type Message = {
    vhost: string;
    queue: string;
    /**
     * must not be empty; bytes if it is not UTF-8
     */
    id: string | Buffer;
    /**
     * empty until the message is dead-lettered and comes back
     */
    generation?: string | Buffer<ArrayBufferLike> | undefined;
};
/**
 * One call of a handler for a message.
 */
export type CountedAttempt = Message & CountedOnly;
export type CountedOnly = {
    /**
     * unique to this attempt: 1 to 64 of A-Z a-z 0-9 _ -
     */
    token: string;
    /**
     * the process, shown to operators
     */
    holder?: string | undefined;
    /**
     * the delivery is not redelivered, and this is its first attempt
     */
    first?: boolean | undefined;
    /**
     * when this process received the delivery, by performance.now(); only a first attempt needs it
     */
    received?: number | undefined;
    /**
     * the fence that the delivery carries
     */
    floor?: number | undefined;
    /**
     * ms; a message that fails later than this after its first counted attempt is exhausted; an override replaces it; 0: none
     */
    maxAge?: number | undefined;
    /**
     * of a copy that waited in the later lane: the last argument of START and FAIL, as docs/protocol.md says
     */
    later?: string | undefined;
};
/**
 * A failed attempt, as FAIL counts it.
 */
export type Failure = {
    /**
     * counted attempts at which the message is exhausted; 0: it is exhausted now; at most 1001
     */
    limit: number;
    /**
     * ms until the next attempt may begin
     */
    wait?: number | undefined;
    /**
     * 'failed' if absent
     */
    cause?: Cause | undefined;
    /**
     * for people; cut to 1024 bytes
     */
    reason?: string | Buffer<ArrayBufferLike> | undefined;
    /**
     * ms that the handler ran, for people
     */
    ran?: number | undefined;
    /**
     * counted attempts at which a message with this failure is exhausted; it only lowers the limit. 0: none
     */
    atMost?: number | undefined;
};
/**
 * What operators want of the consumers of a queue.
 */
export type Control = {
    paused: boolean;
    /**
     * who paused or resumed it
     */
    by: string;
    why: string;
    /**
     * ms since 1970
     */
    at: number;
    /**
     * names of the messages that were skipped, as member() returns them
     */
    skips: Set<string>;
};
import { Store } from './store.js';
