/**
 * Sends a step to the store. The end of the session does not interrupt it: to wait for the reply is faster than to clear up an
 * undecided step. But under the isolation lock a START or BEGUN is not sent again then.
 * @template T
 * @param {import('./deliveries.js').Deliveries} s
 * @param {import('./delivery.js').Delivery} d
 * @param {(options: { timeout: number }) => Promise<T>} step
 * @param {boolean} [starting] the step is START or BEGUN
 * @returns {Promise<T>}
 */
export function send<T>(s: import("./deliveries.js").Deliveries, d: import("./delivery.js").Delivery, step: (options: {
    timeout: number;
}) => Promise<T>, starting?: boolean): Promise<T>;
/**
 * Whether the store refused a step without taking it.
 * @param {unknown} err
 */
export function notTaken(err: unknown): boolean;
