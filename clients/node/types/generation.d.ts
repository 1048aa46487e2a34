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
 * The number of a copy; 0: the message is none.
 * @param {Map<string, Field>} headers of readHeaders
 * @returns {number}
 */
export function hopOf(headers: Map<string, Field>): number;
/**
 * Names the generation of a message, by its newest death in the queue and its generation header, each if there is one.
 * @param {Map<string, Field>} headers of readHeaders
 * @param {string} queue
 * @returns {Buffer} empty if there is neither
 */
export function generationOf(headers: Map<string, Field>, queue: string): Buffer;
/**
 * The same of headers in the form that amqplib delivers.
 * @param {Record<string, unknown> | undefined} headers
 * @param {string} queue
 * @returns {string}
 */
export function generation(headers: Record<string, unknown> | undefined, queue: string): string;
/**
 * The fence that a message carries: that of its last replay, or the end of the second in which it died since, in µs since
 * 1970. 0 if it has neither in a valid form.
 * @param {Map<string, Field>} headers
 * @param {string} queue
 * @returns {number}
 */
export function carriedFence(headers: Map<string, Field>, queue: string): number;
/** Begins a new generation of a message if its value changes. */
export const GENERATION_HEADER: "x-strikes-generation";
/** The fence of a replayed message's first delivery. */
export const FENCE_HEADER: "x-strikes-fence";
/** The number of a copy that waited in the later lane, a whole number from 1. Consumers in Go set it. */
export const HOP_HEADER: "x-strikes-hop";
/** The generation of such a copy, if its other headers do not tell it. */
export const HOP_GENERATION_HEADER: "x-strikes-hop-generation";
/** The largest fence that a message may carry. */
export const MAX_FLOOR: number;
export type Field = import("./properties.js").Field;
/**
 * time in seconds since 1970
 */
export type Death = {
    count: number;
    time: bigint;
};
