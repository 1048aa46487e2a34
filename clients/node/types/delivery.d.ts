/**
 * The id and the headers of a message, from the bytes of its properties if they were kept. Else an id that is not UTF-8 is unclear,
 * and counts as none: amqplib has replaced its bytes, and the message would be counted as another one. A header is refused.
 * @param {ConsumeMessage} message
 * @returns {{ id: Buffer, headers: Map<any, any>, unclear?: boolean }}
 */
export function identify(message: ConsumeMessage): {
    id: Buffer;
    headers: Map<any, any>;
    unclear?: boolean;
};
/** @typedef {import('amqplib').ConsumeMessage} ConsumeMessage */
/** One message on its way from the channel to its settlement. */
export class Delivery {
    /**
     * @param {ConsumeMessage} message
     * @param {{ ack: (m: any) => void, nack: (m: any, allUpTo: boolean, requeue: boolean) => void }} channel that delivered it
     * @param {import('./settings.js').Settings} settings
     */
    constructor(message: ConsumeMessage, channel: {
        ack: (m: any) => void;
        nack: (m: any, allUpTo: boolean, requeue: boolean) => void;
    }, settings: import("./settings.js").Settings);
    message: import("amqplib").ConsumeMessage;
    channel: {
        ack: (m: any) => void;
        nack: (m: any, allUpTo: boolean, requeue: boolean) => void;
    };
    queue: string;
    vhost: string;
    holder: string;
    maxAge: number;
    received: number;
    heldUntil: number;
    id: Buffer<ArrayBufferLike>;
    headers: MessageHeaders;
    generation: Buffer<ArrayBufferLike>;
    hop: number;
    later: string;
    again: boolean;
    /** @type {import('./reply.js').Reply | undefined} */
    reply: import("./reply.js").Reply | undefined;
    /** @type {number | undefined} */
    fence: number | undefined;
    unanswered: number;
    skipped: boolean;
    worker: boolean;
    slot: boolean;
    lock: number;
    undecided: boolean;
    unrecorded: boolean;
    /** @type {Error | undefined} */
    broken: Error | undefined;
    routeUntil: number;
    renewed: number;
    /** @type {import('./settings.js').Outcome} */
    outcome: import("./settings.js").Outcome;
    /** @type {Error | undefined} */
    error: Error | undefined;
    /** @type {{ token?: string }} most attempts succeed, and never need their token */
    name: {
        token?: string;
    };
    /** @type {import('./decide.js').Mode} of START */
    mode: import("./decide.js").Mode;
    open: boolean;
    doubt: boolean;
    number: number;
    ran: number;
    failed: boolean;
    cause: string;
    reason: string;
    /** @type {unknown} */
    failure: unknown;
    /** @type {number | undefined} */
    asked: number | undefined;
    atMost: number;
    /**
     * Begins another attempt.
     * @param {import('./decide.js').Mode} mode of START
     */
    begin(mode: import("./decide.js").Mode): void;
    get token(): string;
    get hasID(): boolean;
    /** This is the first attempt at a delivery that is neither redelivered nor a copy. */
    get isFirst(): boolean;
    /** Whether it has the whole isolation lock. */
    get isolated(): boolean;
    /** The fence that the message carries. */
    get carried(): number;
    /**
     * The attempt as the store counts it.
     * @returns {import('./counter.js').CountedAttempt}
     */
    counted(): import("./counter.js").CountedAttempt;
}
export type ConsumeMessage = import("amqplib").ConsumeMessage;
import { MessageHeaders } from './generation.js';
