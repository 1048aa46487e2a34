/**
 * A token that is unique in all processes: the random part of this process, and a number in it.
 * @returns {string}
 */
export function newToken(): string;
/** Names this process to operators. */
export const thisProcess: string;
