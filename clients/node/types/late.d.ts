/**
 * Holds the steps that could not be taken while their delivery was there, because the store was out of reach: the END of an
 * attempt after its session, the FAIL of a message that was dead-lettered. Both are harmless to repeat and better late than never.
 */
export class Late {
    /** @param {boolean} [owned] its owner calls close, and waits */
    constructor(owned?: boolean);
    owned: boolean;
    over: Stop;
    /** @type {Set<Promise<void>>} */
    tasks: Set<Promise<void>>;
    /**
     * Repeats a step. If over is given, the process waits for the step: it is repeated until close, and over is called once the
     * store took it or it is given up.
     * @param {() => Promise<unknown>} step
     * @param {(() => void) | undefined} over
     */
    add(step: () => Promise<unknown>, over: (() => void) | undefined): void;
    /** @param {() => Promise<unknown>} step @param {number} until */
    repeat(step: () => Promise<unknown>, until: number): Promise<void>;
    /** Has each step sent once more, and waits for them. */
    close(): Promise<void>;
}
/** Serves Settlers. Its steps end within a minute. */
export const ownerless: Late;
import { Stop } from './wait.js';
