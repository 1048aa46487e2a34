/**
 * Reads a record, which scripts/record.lua describes; undefined if it is none.
 * @param {Buffer} bytes
 * @returns {Record | undefined}
 */
export function parseRecord(bytes: Buffer): Record | undefined;
/**
 * What the store keeps of one generation of a message. Times are ms since 1970 by the store's clock; 0 means absent.
 */
export type Record = {
    /**
     * counted attempts whose handler failed
     */
    failures: number;
    /**
     * counted attempts whose process died
     */
    crashes: number;
    /**
     * attempts that START let run
     */
    starts: number;
    /**
     * of the last of them, in µs
     */
    fence: number;
    /**
     * an attempt was found open: the message may have killed a process
     */
    suspect: boolean;
    /**
     * '' live, 'exhausted', 'skip' or 'done'
     */
    state: string;
    /**
     * until when the tombstone is in force
     */
    binds: number;
    /**
     * when the next attempt may begin
     */
    due: number;
    /**
     * ms that the last failure asked for
     */
    wait: number;
    /**
     * time of the first counted attempt
     */
    first: number;
    /**
     * time of the last
     */
    last: number;
    /**
     * of the last counted attempt
     */
    cause: string;
    /**
     * of the open attempt; empty: none
     */
    openToken: string;
    /**
     * 'shared', 'isolated' or empty
     */
    openMode: string;
    openSince: number;
    /**
     * when it was last moved in the index
     */
    listed: number;
    /**
     * of the last step's consumer, before override and grant
     */
    limit: number;
    /**
     * attempts beyond the limit
     */
    granted: number;
    /**
     * 1: a first attempt failed; 2: two messages may have this id
     */
    firsts: number;
    /**
     * 'f' failed, 'c' crashed, 'e' ended and not counted
     */
    tokens: {
        [token: string]: string;
    };
    id: Buffer;
    generation: Buffer;
    holder: Buffer;
    notes: Buffer;
    history: Buffer;
    reason: Buffer;
    /**
     * undefined: the message was never moved to the later lane
     */
    moved: Move | undefined;
};
export type Move = {
    /**
     * the highest number of a confirmed copy
     */
    hop: number;
    /**
     * the highest number that a copy was given
     */
    top: number;
    /**
     * the end of the lease of the move under way; 0: none is
     */
    until: number;
    /**
     * the token of the attempt whose message is being moved
     */
    mover: string;
    /**
     * the fingerprint of the message; x if two messages have its id
     */
    body: string;
};
