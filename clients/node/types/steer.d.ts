/**
 * Wraps an error so that the message is dead-lettered now, whatever its count: throw reject(err).
 * @param {unknown} err
 * @returns {Error}
 */
export function reject(err: unknown): Error;
/**
 * Wraps an error so that the next attempt waits for ms instead of the backoff: throw retryAfter(err, 5000). It is counted like
 * any other failed attempt. The delivery is held unacked meanwhile, so it is for seconds or minutes.
 * @param {unknown} err
 * @param {number} ms a negative one is none
 * @returns {Error}
 */
export function retryAfter(err: unknown, ms: number): Error;
/**
 * What a thrown value asks for, also if it was wrapped again with a cause.
 * @param {unknown} thrown
 * @returns {{ rejected: boolean, wait: number | undefined }}
 */
export function steering(thrown: unknown): {
    rejected: boolean;
    wait: number | undefined;
};
