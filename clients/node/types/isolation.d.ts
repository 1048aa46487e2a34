/** @returns {Isolation} */
export function ofProcess(): Isolation;
/** The weight of an isolated attempt. */
export const EVERYTHING: number;
/** Is shut while the isolation lock is free and an isolated attempt is undecided. */
export class Gate {
    closed: boolean;
    /** @type {Set<() => void>} */
    waiting: Set<() => void>;
    shut(): void;
    open(): void;
    /**
     * Waits until the gate is open.
     * @param {import('./wait.js').Stop} stop
     * @param {number} until by performance.now()
     * @returns {Promise<boolean>} false if stop or until came first
     */
    pass(stop: import("./wait.js").Stop, until: number): Promise<boolean>;
}
/**
 * Shared by all consumers of the process, because a message kills all of it.
 *
 *   lock       one unit for each handler that runs; all for an isolated attempt, from its START to the step that closes it
 *   undecided  held for the one isolated attempt that may be open in the store, until the store has answered the step that closes it
 *   gate       while it is shut, a message that may have killed a process gets no attempt: its kill would count against the undecided one
 *   abandoned  handlers that passed their deadline and still run: while there is one, nothing is isolated
 */
export class Isolation {
    lock: Semaphore;
    undecided: Semaphore;
    gate: Gate;
    abandoned: number;
}
import { Semaphore } from './semaphore.js';
