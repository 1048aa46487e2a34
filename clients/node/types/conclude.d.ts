/** @typedef {import('./delivery.js').Delivery} Delivery */
/** @typedef {import('./deliveries.js').Deliveries} Deliveries */
/** @typedef {import('./decide.js').Step} Step */
/**
 * Tells the store how the handler ended, as far as it has to know, and returns what becomes of the delivery.
 * @param {Deliveries} s
 * @param {Delivery} d
 * @returns {Promise<Step>}
 */
export function conclude(s: Deliveries, d: Delivery): Promise<Step>;
export type Delivery = import("./delivery.js").Delivery;
export type Deliveries = import("./deliveries.js").Deliveries;
export type Step = import("./decide.js").Step;
