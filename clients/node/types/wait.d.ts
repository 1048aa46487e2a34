/**
 * Waits. It reports false if stop ended first.
 * @param {number} ms
 * @param {Stop} stop
 * @returns {Promise<boolean>}
 */
export function pause(ms: number, stop: Stop): Promise<boolean>;
/**
 * The result of a promise, or an error after ms. The promise may go on.
 * @template T
 * @param {Promise<T>} promise
 * @param {number} ms
 * @param {string} what was waited for
 * @returns {Promise<T>}
 */
export function within<T>(promise: Promise<T>, ms: number, what: string): Promise<T>;
/** Ends waits. Unlike an AbortSignal it has any number of listeners without a warning. */
export class Stop {
    done: boolean;
    /** @type {unknown} */
    reason: unknown;
    /** @type {Set<() => void>} */
    listeners: Set<() => void>;
    /** @param {unknown} [reason] */
    end(reason?: unknown): void;
    /**
     * Calls f once, when this ends.
     * @param {() => void} f
     * @returns {() => void} takes it back
     */
    on(f: () => void): () => void;
    /**
     * Ends this when a signal is aborted.
     * @param {AbortSignal | undefined} signal
     * @returns {() => void} takes that back
     */
    follow(signal: AbortSignal | undefined): () => void;
}
