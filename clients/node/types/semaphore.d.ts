/** @typedef {import('./wait.js').Stop} Stop */
/** First come, first served: a large request is not overtaken by small ones. */
export class Semaphore {
    /** @param {number} size */
    constructor(size: number);
    free: number;
    /** @type {Set<{ units: number, grant: () => void }>} in the order of their arrival */
    waiting: Set<{
        units: number;
        grant: () => void;
    }>;
    /** @param {number} units */
    tryAcquire(units: number): boolean;
    /**
     * @param {number} units
     * @param {{ stop?: Stop, until?: number }} [bounds] until: by performance.now()
     * @returns {Promise<boolean>} false if a bound was met first
     */
    acquire(units: number, { stop, until }?: {
        stop?: Stop;
        until?: number;
    }): Promise<boolean>;
    /** @param {number} units */
    release(units: number): void;
    pass(): void;
}
export type Stop = import("./wait.js").Stop;
