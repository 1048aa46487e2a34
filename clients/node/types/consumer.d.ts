/** Hands the messages of one queue to a handler. */
export class Consumer {
    /** @param {ConsumerOptions} options */
    constructor(options: ConsumerOptions);
    connect: () => Promise<any>;
    settings: import("./settings.js").Settings;
    /** @type {Required<Pick<OwnOptions, 'handler' | 'concurrency' | 'prefetch' | 'drainTimeout' | 'allowDrop' | 'consuming'>> & Pick<OwnOptions, 'check'>} */
    own: Required<Pick<OwnOptions, "handler" | "concurrency" | "prefetch" | "drainTimeout" | "allowDrop" | "consuming">> & Pick<OwnOptions, "check">;
    /**
     * Keeps one session on the broker until the signal is aborted: it connects, consumes, and connects again after a lost session.
     * It resolves once the signal is aborted and everything is settled. It throws an UncleanStopError if that is not certain, a
     * StuckError, and until a first session has consumed, a RefusedError: of the queue, the credentials or the store.
     * @param {AbortSignal} [signal]
     * @returns {Promise<void>}
     */
    run(signal?: AbortSignal): Promise<void>;
    /**
     * @typedef {object} Running
     * @property {Stop} stop
     * @property {Late} late
     * @property {import('./control.js').ControlReader | undefined} control
     * @property {import('./isolation.js').Isolation} isolation
     * @property {boolean} consumed a session has consumed
     * @property {boolean} careful an undecodable message may be in the queue
     * @property {boolean} first the first connection is not over
     * @property {number} denials of credentials in a row
     */
    /** @param {Running} r */
    sessions(r: {
        stop: Stop;
        late: Late;
        control: import("./control.js").ControlReader | undefined;
        isolation: import("./isolation.js").Isolation;
        /**
         * a session has consumed
         */
        consumed: boolean;
        /**
         * an undecodable message may be in the queue
         */
        careful: boolean;
        /**
         * the first connection is not over
         */
        first: boolean;
        /**
         * of credentials in a row
         */
        denials: number;
    }): Promise<void>;
    /** @param {Running} r */
    onConnection(r: {
        stop: Stop;
        late: Late;
        control: import("./control.js").ControlReader | undefined;
        isolation: import("./isolation.js").Isolation;
        /**
         * a session has consumed
         */
        consumed: boolean;
        /**
         * an undecodable message may be in the queue
         */
        careful: boolean;
        /**
         * the first connection is not over
         */
        first: boolean;
        /**
         * of credentials in a row
         */
        denials: number;
    }): Promise<void>;
    /** @param {Running} r */
    dial(r: {
        stop: Stop;
        late: Late;
        control: import("./control.js").ControlReader | undefined;
        isolation: import("./isolation.js").Isolation;
        /**
         * a session has consumed
         */
        consumed: boolean;
        /**
         * an undecodable message may be in the queue
         */
        careful: boolean;
        /**
         * the first connection is not over
         */
        first: boolean;
        /**
         * of credentials in a row
         */
        denials: number;
    }): Promise<any>;
    /** @param {any} model @param {Pick<Running, 'control' | 'consumed'>} r */
    check(model: any, { control, consumed }: Pick<{
        stop: Stop;
        late: Late;
        control: import("./control.js").ControlReader | undefined;
        isolation: import("./isolation.js").Isolation;
        /**
         * a session has consumed
         */
        consumed: boolean;
        /**
         * an undecodable message may be in the queue
         */
        careful: boolean;
        /**
         * the first connection is not over
         */
        first: boolean;
        /**
         * of credentials in a row
         */
        denials: number;
    }, "control" | "consumed">): Promise<import("./check.js").QueueFacts | undefined>;
    /** Refuses a store that no waiting will make count. One that is away is no reason to refuse: first deliveries do not need it. */
    checkStore(): Promise<void>;
    /** @param {Running} r @param {any} model @param {import('./check.js').QueueFacts | undefined} facts @param {number} connected */
    session(r: {
        stop: Stop;
        late: Late;
        control: import("./control.js").ControlReader | undefined;
        isolation: import("./isolation.js").Isolation;
        /**
         * a session has consumed
         */
        consumed: boolean;
        /**
         * an undecodable message may be in the queue
         */
        careful: boolean;
        /**
         * the first connection is not over
         */
        first: boolean;
        /**
         * of credentials in a row
         */
        denials: number;
    }, model: any, facts: import("./check.js").QueueFacts | undefined, connected: number): Promise<void>;
    /** @param {Session} session @param {UndecodableError} err */
    report(session: Session, err: UndecodableError): Promise<void>;
    /** @param {() => void} f of the user's */
    guard(f: () => void): void;
}
export type OwnOptions = {
    /**
     * of the broker, amqp:// or amqps://; its virtual host is that of the queue
     */
    url?: string | undefined;
    /**
     * of amqplib's connect, such as ca, cert and key
     */
    socketOptions?: object | undefined;
    /**
     * opens a connection of amqplib, instead of url; name its virtual host in vhost. It must not recover by itself
     */
    connect?: (() => Promise<any>) | undefined;
    handler: import("./invoke.js").Handler;
    /**
     * handlers that run at the same time; 1 if absent
     */
    concurrency?: number | undefined;
    /**
     * deliveries that the broker may have given out unsettled; twice the concurrency and 10 at least if absent
     */
    prefetch?: number | undefined;
    /**
     * ms that handlers may go on after the signal is aborted; 25 s if absent
     */
    drainTimeout?: number | undefined;
    /**
     * throws if the queue must not be consumed; false: none. If absent, what AMQP reports is checked
     */
    check?: false | ((connection: any) => Promise<void>) | undefined;
    /**
     * accepts a queue without a dead-letter route: the broker drops messages that fail too often
     */
    allowDrop?: boolean | undefined;
    /**
     * gets true while the broker sends messages, else false; for a readiness probe
     */
    consuming?: ((yes: boolean) => void) | undefined;
};
export type ConsumerOptions = import("./settings.js").SettlerOptions & OwnOptions;
import { Stop } from './wait.js';
import { Late } from './late.js';
import { Session } from './session.js';
import { UndecodableError } from './errors.js';
