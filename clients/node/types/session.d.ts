/**
 * Waits until one of two has ended.
 * @param {Stop} a
 * @param {Stop} b
 * @returns {Promise<void>}
 */
export function either(a: Stop, b: Stop): Promise<void>;
/**
 * What a session needs of its Consumer.
 * @typedef {object} SessionOptions
 * @property {import('./settings.js').Settings} settings
 * @property {import('./invoke.js').Handler} handler
 * @property {number} concurrency
 * @property {number} prefetch
 * @property {number} drainTimeout
 * @property {import('./isolation.js').Isolation} isolation
 * @property {import('./late.js').Late} late
 * @property {import('./control.js').ControlReader | undefined} control
 * @property {import('./route.js').Route | undefined} route
 * @property {number} deadLettersFrom
 * @property {(yes: boolean) => void} consuming
 * @property {boolean} careful an undecodable message may be in the queue
 */
/** How long a careful session lasts before the next one prefetches again. */
export const CARE_FOR: 10000;
/** One channel and the deliveries that came with it. None of them outlives it. */
export class Session {
    /**
     * @param {any} model the connection
     * @param {SessionOptions} options
     */
    constructor(model: any, options: SessionOptions);
    model: any;
    options: SessionOptions;
    queue: string;
    ended: Stop;
    received: number;
    /** @type {Buffer} */
    last: Buffer;
    began: number;
    passed: boolean;
    /** @type {Error | undefined} */
    undecodable: Error | undefined;
    deliveries: Deliveries;
    /**
     * Consumes until stop ends or the session does. It throws what ended the session.
     * @param {Stop} stop
     */
    run(stop: Stop): Promise<void>;
    /** Hears of the end of the connection. */
    listen(): () => void;
    /** @param {unknown} why */
    lose(why: unknown): void;
    /** Where in the queue an undecodable message is. */
    position(): string;
    /** @returns {Promise<any>} */
    open(): Promise<any>;
    tag: string | undefined;
    /** @param {any} channel @param {any} message */
    take(channel: any, message: any): void;
    /** @param {any} channel @param {Stop} stop */
    serve(channel: any, stop: Stop): Promise<void>;
    /** Waits until all deliveries are done, for the drainTimeout at most. */
    drain(): Promise<void>;
    /**
     * Ends the channel after a clean stop, and makes sure that the acks have arrived.
     * @param {any} channel
     */
    close(channel: any): Promise<void>;
}
/**
 * What a session needs of its Consumer.
 */
export type SessionOptions = {
    settings: import("./settings.js").Settings;
    handler: import("./invoke.js").Handler;
    concurrency: number;
    prefetch: number;
    drainTimeout: number;
    isolation: import("./isolation.js").Isolation;
    late: import("./late.js").Late;
    control: import("./control.js").ControlReader | undefined;
    route: import("./route.js").Route | undefined;
    deadLettersFrom: number;
    consuming: (yes: boolean) => void;
    /**
     * an undecodable message may be in the queue
     */
    careful: boolean;
};
import { Stop } from './wait.js';
import { Deliveries } from './deliveries.js';
