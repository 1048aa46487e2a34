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
 * Wraps an error so that the message is retried at most n times after a failure of this kind: throw retryAtMost(err, 1). It is
 * dead-lettered if it has more than n failed attempts of any kind, this one included. It lowers the limit for this failure
 * alone, and never raises it; attempts that an operator granted are added. If several are wrapped in each other, the smallest counts.
 * @param {unknown} err
 * @param {number} n a negative one is treated as 0, which allows no retry
 * @returns {Error}
 */
export function retryAtMost(err: unknown, n: number): Error;
/**
 * What a thrown value asks for, also if it was wrapped again with a cause.
 * @param {unknown} thrown
 * @returns {{ rejected: boolean, wait: number | undefined, retries: number | undefined }}
 */
export function steering(thrown: unknown): {
    rejected: boolean;
    wait: number | undefined;
    retries: number | undefined;
};
