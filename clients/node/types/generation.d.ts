/** @typedef {import('./properties.js').Field} Field */
/**
 * A death that a consumer caused, from x-death.
 * @typedef {{ count: number, time: bigint }} Death time in seconds since 1970
 */
/**
 * The headers that decide how a message is counted. It accepts the bytes of a header table, or headers as amqplib decodes them.
 * @param {Buffer | Record<string, unknown> | undefined} headers
 * @returns {Map<string, Field>}
 */
export function readHeaders(headers: Buffer | Record<string, unknown> | undefined): Map<string, Field>;
/**
 * The name of a message in x-strikes-for. The body counts only without an id.
 * @param {Buffer} queue
 * @param {Buffer} id
 * @param {Buffer} begun its generation header
 * @param {Buffer} body
 */
export function nameFor(queue: Buffer, id: Buffer, begun: Buffer, body: Buffer): Buffer<ArrayBuffer>;
/** Begins a new generation of a message if its value changes. */
export const GENERATION_HEADER: "x-strikes-generation";
/** The fence of a replayed message's first delivery. */
export const FENCE_HEADER: "x-strikes-fence";
/** The number of a copy that waited in the later lane, a whole number from 1. Consumers in Go set it. */
export const HOP_HEADER: "x-strikes-hop";
/** The generation of such a copy, if its other headers do not tell it. */
export const HOP_GENERATION_HEADER: "x-strikes-hop-generation";
/** Names the message that the headers of strikes were written for. */
export const FOR_HEADER: "x-strikes-for";
/** The largest fence that a message may carry. */
export const MAX_FLOOR: number;
/**
 * The headers of one message that was received from a queue. Programs copy the headers of a message that they
 * received to the next one that they publish. Those of strikes count only if they were written for this message.
 */
export class MessageHeaders {
    /**
     * @param {Map<string, Field>} fields of readHeaders
     * @param {string} queue
     * @param {Buffer} id the message id as it was transported, not what key returns
     * @param {Buffer} body
     */
    constructor(fields: Map<string, Field>, queue: string, id: Buffer, body: Buffer);
    fields: Map<string, import("./properties.js").Field>;
    queue: string;
    own: boolean;
    here: boolean;
    foreign: boolean;
    /** @param {Buffer} id @param {Buffer} body */
    compare(id: Buffer, body: Buffer): void;
    /** The number of a copy; 0: the message is none. */
    get hop(): number;
    /** The name of the message's generation, by its newest death in the queue and its generation header. */
    get generation(): Buffer<ArrayBufferLike>;
    /** The generation that a publish or a replay began. A copy is of the generation that it carries. */
    firstGeneration(): Buffer<ArrayBufferLike>;
    /**
     * The fence that the message carries: that of its last replay, or the end of the second in which it died since, in
     * µs since 1970. 0: none.
     */
    get fence(): number;
}
export type Field = import("./properties.js").Field;
/**
 * time in seconds since 1970
 */
export type Death = {
    count: number;
    time: bigint;
};
