/**
 * Holds a dead letter until it may be sent. It returns DEAD_LETTER then, or what comes instead.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<import('./decide.js').Step>}
 */
export function awaitRoute(s: Deliveries, d: Delivery): Promise<import("./decide.js").Step>;
/** The dead-letter route of a session's queue. */
export class Route {
    /**
     * @param {() => Promise<Error | undefined>} check why the route is known to be broken; it throws if that is not known
     * @param {import('./settings.js').Logger} logger
     * @param {string} queue
     */
    constructor(check: () => Promise<Error | undefined>, logger: import("./settings.js").Logger, queue: string);
    check: () => Promise<Error | undefined>;
    logger: import("./settings.js").Logger;
    queue: string;
    checked: number;
    /** @type {Error | undefined} */
    broken: Error | undefined;
    /** @type {Promise<void> | undefined} */
    asking: Promise<void> | undefined;
    /**
     * One caller checks, the others wait for its result.
     * @returns {Promise<{ wait: number, broken: Error | undefined }>} ms until the next check, and why the route is broken
     */
    state(): Promise<{
        wait: number;
        broken: Error | undefined;
    }>;
    ask(): Promise<void>;
}
export type Delivery = import("./delivery.js").Delivery;
export type Deliveries = import("./deliveries.js").Deliveries;
