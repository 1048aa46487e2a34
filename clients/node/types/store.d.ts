/**
 * Opens a client with safe settings. It connects in the background and reconnects by itself.
 * @param {string} url redis://, rediss:// or unix://
 * @param {RedisOptions} [options] more of ioredis, such as sentinels and name
 * @returns {Redis}
 */
export function dialStore(url: string, options?: RedisOptions): Redis;
/**
 * What a client must not do; undefined if it may be used.
 * @param {any} redis
 * @returns {Error | undefined}
 */
export function refuseClient(redis: any): Error | undefined;
/**
 * An error of ioredis as a StoreError. A server may quote the arguments of a command, passwords included, so only the code of
 * an unknown reply is passed on.
 * @param {any} err
 * @returns {StoreError}
 */
export function storeError(err: any): StoreError;
/** Sends scripts to one ioredis client. No command is sent twice. */
export class Store {
    /** @param {Redis} redis */
    constructor(redis: Redis);
    redis: Redis;
    /** @type {Error | undefined} */
    lastError: Error | undefined;
    /** @type {StoreError | undefined} ioredis goes on without credentials that were refused, as another user */
    denied: StoreError | undefined;
    /**
     * Runs a script by its hash. If the server does not know the script, nothing was run, and the source is sent.
     * @param {Script} script
     * @param {string[]} keys
     * @param {(string | Buffer | number)[]} args
     * @param {number} timeout ms
     * @returns {Promise<unknown>}
     */
    run(script: Script, keys: string[], args: (string | Buffer | number)[], timeout: number): Promise<unknown>;
    /**
     * @param {(string | Buffer | number)[]} words
     * @param {number} until
     * @returns {Promise<unknown>}
     */
    command(words: (string | Buffer | number)[], until: number): Promise<unknown>;
    /**
     * Waits for the connection. Nothing is sent before, so nothing is undecided.
     * @param {number} until
     * @returns {Promise<void>}
     */
    ready(until: number): Promise<void>;
}
export type RedisOptions = import("ioredis").RedisOptions;
export type Script = import("./scripts.js").Script;
export type Fault = import("./errors.js").Fault;
import { Redis } from 'ioredis';
import { StoreError } from './errors.js';
