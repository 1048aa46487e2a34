/**
 * The reader of a queue, which all consumers of the process share; undefined if the counter has no control.
 * @param {any} counter
 * @param {{ vhost: string, queue: string, holder: string, logger: import('./settings.js').Logger }} of
 */
export function holdControl(counter: any, of: {
    vhost: string;
    queue: string;
    holder: string;
    logger: import("./settings.js").Logger;
}): ControlReader | undefined;
/**
 * Stops the reader that no other consumer uses, and waits for that.
 * @param {ControlReader | undefined} reader
 */
export function releaseControl(reader: ControlReader | undefined): Promise<void>;
/**
 * Holds a delivery for its backoff. A stop ends the wait; an operator's skip ends it once.
 * @param {ControlReader | undefined} reader
 * @param {import('./wait.js').Stop} stop
 * @param {{ id: Buffer, generation: Buffer, skipped: boolean }} d
 * @param {number} ms
 * @returns {Promise<'over' | 'stopped' | 'skipped'>}
 */
export function waitUnlessSkipped(reader: ControlReader | undefined, stop: import("./wait.js").Stop, d: {
    id: Buffer;
    generation: Buffer;
    skipped: boolean;
}, ms: number): Promise<"over" | "stopped" | "skipped">;
/** @typedef {import('./counter.js').Control} ControlReply */
/**
 * @typedef {object} Controller
 * @property {(vhost: string, queue: string, reader: any, options?: any) => Promise<ControlReply>} control
 * @property {(vhost: string, queue: string, options?: any) => Promise<number>} [heldLanes]
 */
/**
 * Reads once a second, for all consumers of the process on a queue, whether operators paused the queue or skipped messages. If
 * the store does not reply, its last reply stands.
 */
export class ControlReader {
    /**
     * @param {Controller} store
     * @param {{ vhost: string, queue: string, holder: string, logger: import('./settings.js').Logger }} of
     */
    constructor(store: Controller, { vhost, queue, holder, logger }: {
        vhost: string;
        queue: string;
        holder: string;
        logger: import("./settings.js").Logger;
    });
    store: Controller;
    vhost: string;
    queue: string;
    holder: string;
    logger: import("./settings.js").Logger;
    token: string;
    /** @type {ControlReply} */
    reply: ControlReply;
    lanes: number;
    /** @type {unknown} of the last read of their number */
    lanesError: unknown;
    /** @type {Set<() => void>} called after each reply */
    listeners: Set<() => void>;
    sessions: number;
    users: number;
    reached: boolean;
    stopped: boolean;
    first: Promise<void>;
    loop: Promise<void>;
    run(): Promise<void>;
    wake: ((value: any) => void) | undefined;
    timer: NodeJS.Timeout | undefined;
    /** Asks for a read now. */
    readNow(): void;
    /** @param {'consuming' | 'stopped' | 'left'} state */
    reader(state: "consuming" | "stopped" | "left"): {
        token: string;
        holder: string;
        state: "stopped" | "consuming" | "left";
    };
    read(): Promise<void>;
    /** Reads how many lanes are held. After an error the last number stands; the first one in a row is logged. */
    readLanes(): Promise<void>;
    /**
     * @param {() => void} f
     * @returns {() => void} takes it back
     */
    on(f: () => void): () => void;
    /**
     * Why the queue must not be consumed: only a consumer in Go holds lanes.
     * @returns {RefusedError | undefined}
     */
    refusal(): RefusedError | undefined;
    /** A session that has ended holds no delivery any more. */
    sessionEnded(): void;
}
export type ControlReply = import("./counter.js").Control;
export type Controller = {
    control: (vhost: string, queue: string, reader: any, options?: any) => Promise<ControlReply>;
    heldLanes?: ((vhost: string, queue: string, options?: any) => Promise<number>) | undefined;
};
import { RefusedError } from './errors.js';
