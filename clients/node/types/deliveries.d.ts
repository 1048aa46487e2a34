/**
 * The deliveries of one session, and what they share. Nothing new begins once stop has ended; handlers are cancelled once live
 * has, which is not before.
 */
export class Deliveries {
    /**
     * @param {import('./settings.js').Settings} settings
     * @param {import('./invoke.js').Handler} handler
     * @param {object} shared
     * @param {import('./isolation.js').Isolation} shared.isolation
     * @param {import('./late.js').Late} shared.late
     * @param {number} [shared.concurrency]
     * @param {import('./control.js').ControlReader} [shared.control]
     * @param {import('./route.js').Route} [shared.route]
     * @param {number} [shared.deadLettersFrom] dead letters are held until then
     * @param {(err: Error) => void} [shared.fail] ends the session
     */
    constructor(settings: import("./settings.js").Settings, handler: import("./invoke.js").Handler, { isolation, late, concurrency, control, route, deadLettersFrom, fail }: {
        isolation: import("./isolation.js").Isolation;
        late: import("./late.js").Late;
        concurrency?: number | undefined;
        control?: import("./control.js").ControlReader | undefined;
        route?: import("./route.js").Route | undefined;
        deadLettersFrom?: number | undefined;
        fail?: ((err: Error) => void) | undefined;
    });
    settings: import("./settings.js").Settings;
    handler: import("./invoke.js").Handler;
    isolation: import("./isolation.js").Isolation;
    late: import("./late.js").Late;
    control: import("./control.js").ControlReader | undefined;
    route: import("./route.js").Route | undefined;
    deadLettersFrom: number;
    mostStuck: number;
    fail: (err: Error) => void;
    limit: number;
    workers: Semaphore;
    slots: Semaphore;
    stop: Stop;
    live: Stop;
    settling: boolean;
    open: number;
    /** @type {(() => void)[]} */
    idle: (() => void)[];
    /**
     * Carries a delivery from its receipt to its settlement.
     * @param {Delivery} d
     * @returns {Promise<Delivery>}
     */
    deliver(d: Delivery): Promise<Delivery>;
    /**
     * Makes attempts until one decides what becomes of d.
     * @param {Delivery} d
     * @returns {Promise<Step>}
     */
    attempts(d: Delivery): Promise<Step>;
    /** @param {Delivery} d @returns {Step} */
    received(d: Delivery): Step;
    /**
     * Settles d, or leaves it to return with its session.
     * @param {Delivery} d
     * @param {Step} next
     */
    finish(d: Delivery, next: Step): Promise<void>;
    /** @param {Delivery} d @param {Step} next */
    settle(d: Delivery, next: Step): void;
    /**
     * Gives back what an attempt holds.
     * @param {Delivery} d
     */
    release(d: Delivery): void;
    /** @param {Delivery} d */
    leaveSlot(d: Delivery): void;
    /**
     * Waits for a worker. It needs no bound: each delivery gives its worker back in bounded time.
     * @param {Delivery} d
     */
    takeWorker(d: Delivery): Promise<void>;
    /**
     * Takes units of the isolation lock, for as long as the delivery may be held.
     * @param {Delivery} d
     * @param {number} units
     */
    takeLock(d: Delivery, units: number): Promise<boolean>;
    /** @param {Delivery} d */
    takeAll(d: Delivery): Promise<boolean>;
    /**
     * @param {Delivery} d
     * @param {import('./settings.js').Event['outcome']} outcome
     * @param {{ wait?: number, error?: unknown }} [more]
     */
    observe(d: Delivery, outcome: import("./settings.js").Event["outcome"], { wait, error }?: {
        wait?: number;
        error?: unknown;
    }): void;
    /**
     * Logs a dead letter or a retry. A message without an id has no record, so its line shows the fingerprint by which
     * strikes dead list names it.
     * @param {Delivery} d
     * @param {'dead-letter' | 'retry'} outcome
     * @param {number | undefined} wait
     * @param {unknown} error
     */
    log(d: Delivery, outcome: "dead-letter" | "retry", wait: number | undefined, error: unknown): void;
    /** Returns once no delivery is under way. */
    done(): Promise<any>;
}
export type Step = import("./decide.js").Step;
export type Outcome = import("./settings.js").Outcome;
import { Semaphore } from './semaphore.js';
import { Stop } from './wait.js';
import { Delivery } from './delivery.js';
