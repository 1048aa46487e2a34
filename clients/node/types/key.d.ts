/**
 * Percent-encodes a name, so that no slash or brace in it makes two queues equal or chooses another slot of a Cluster.
 * @param {string | Buffer} name
 * @returns {string}
 */
export function encode(name: string | Buffer): string;
/**
 * The name of a record in the index of its queue.
 * @param {string | Buffer} id
 * @param {string | Buffer} generation
 */
export function member(id: string | Buffer, generation: string | Buffer): string;
/**
 * Begins every key of a queue.
 * @param {string} prefix
 * @param {string | Buffer} vhost
 * @param {string | Buffer} queue
 */
export function queueKey(prefix: string, vhost: string | Buffer, queue: string | Buffer): string;
/**
 * The keys of a message's record and of its queue, as scripts/record.lua describes them.
 * @param {{ vhost: string | Buffer, queue: string | Buffer, id: string | Buffer, generation?: string | Buffer }} message
 * @param {string} [prefix]
 */
export function keys(message: {
    vhost: string | Buffer;
    queue: string | Buffer;
    id: string | Buffer;
    generation?: string | Buffer;
}, prefix?: string): {
    index: string;
    override: string;
    tombstones: string;
    dead: string;
    record: string;
};
/**
 * The keys of a queue that scripts/control.lua describes.
 * @param {string | Buffer} vhost
 * @param {string | Buffer} queue
 * @param {string} [prefix]
 */
export function controlKeys(vhost: string | Buffer, queue: string | Buffer, prefix?: string): {
    pause: string;
    consumers: string;
    skips: string;
};
/** Begins the keys of a Counter without a prefix of its own. Its number is the version of the record's layout. */
export const DEFAULT_PREFIX: "strikes:1";
