/** @typedef {import('./delivery.js').Delivery} Delivery */
/** @typedef {import('./deliveries.js').Deliveries} Deliveries */
/** @typedef {import('./decide.js').Step} Step */
/**
 * Reports to the store how the handler ended, if it must know, and returns what becomes of the delivery.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
export function conclude(s: Deliveries, d: Delivery): Promise<Step>;
export type Delivery = import("./delivery.js").Delivery;
export type Deliveries = import("./deliveries.js").Deliveries;
export type Step = import("./decide.js").Step;
