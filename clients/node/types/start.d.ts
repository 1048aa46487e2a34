/**
 * Leads a delivery to its next attempt. It returns RUN once the handler is to be called; d then has a worker and its units of the
 * isolation lock. Any other step says what becomes of the delivery without an attempt.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
export function begin(s: Deliveries, d: Delivery): Promise<Step>;
/**
 * What becomes of a delivery that was held for as long as it may be. An attempt that may be open is closed first: the next
 * receiver would take it for a crash. A dead letter gets no other attempt.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
export function overdue(s: Deliveries, d: Delivery): Promise<Step>;
/**
 * Sends END, and throws if it was not taken.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @param {boolean} succeeded
 */
export function sendEnd(s: Deliveries, d: Delivery, succeeded: boolean): Promise<void>;
/**
 * Sends a step that closes the attempt.
 * @template T
 * @param {Deliveries} s
 * @param {Delivery} d
 * @param {(options: { timeout: number }) => Promise<T>} step
 * @returns {Promise<T>}
 */
export function closing<T>(s: Deliveries, d: Delivery, step: (options: {
    timeout: number;
}) => Promise<T>): Promise<T>;
/**
 * Holds a delivery for a wait. It returns the step that follows, or what comes instead.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @param {number} ms
 * @param {Step} after
 * @returns {Promise<Step>}
 */
export function holdFor(s: Deliveries, d: Delivery, ms: number, after: Step): Promise<Step>;
/**
 * Holds a delivery after the store did not take a step. It returns that step when it is to be sent again, or what comes instead.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @param {Step} sending
 * @param {unknown} error
 * @returns {Promise<Step>}
 */
export function hold(s: Deliveries, d: Delivery, sending: Step, error: unknown): Promise<Step>;
/**
 * Closes an attempt that is not counted. If the store does not answer, that is done later.
 * @param {Deliveries} s
 * @param {Delivery} d
 */
export function close(s: Deliveries, d: Delivery): Promise<void>;
/**
 * Sends END until the store answers, after the delivery is gone.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @param {boolean} succeeded
 */
export function endLater(s: Deliveries, d: Delivery, succeeded: boolean): void;
/**
 * Sends FAIL until the store answers.
 * @param {Deliveries} s
 * @param {Delivery} d
 */
export function failLater(s: Deliveries, d: Delivery): void;
/**
 * What FAIL is sent with. The wait is what the handler asked for, else what the failed attempts call for.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {import('./counter.js').Failure}
 */
export function failureOf(s: Deliveries, d: Delivery): import("./counter.js").Failure;
/**
 * Gives back the isolation lock. If the store has not answered for an isolated attempt, the gate is shut before.
 * @param {Deliveries} s
 * @param {Delivery} d
 */
export function unlock(s: Deliveries, d: Delivery): void;
/**
 * Ends the time in which a death of the process counts against d's message, if d is the undecided attempt.
 * @param {Deliveries} s
 * @param {Delivery} d
 */
export function decided(s: Deliveries, d: Delivery): void;
export type Delivery = import("./delivery.js").Delivery;
export type Deliveries = import("./deliveries.js").Deliveries;
export type Step = import("./decide.js").Step;
