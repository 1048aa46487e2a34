/**
 * Reads a script's reply to one step. Nothing is decided from a reply that it refuses.
 * @param {unknown} reply
 * @param {'start' | 'begun' | 'fail' | 'end'} [step] that may answer only with its own verdicts
 * @returns {Reply}
 */
export function parseReply(reply: unknown, step?: "start" | "begun" | "fail" | "end"): Reply;
/**
 * The number of counted attempts, which the limit bounds.
 * @param {{ failures: number, crashes: number }} r
 */
export function counted(r: {
    failures: number;
    crashes: number;
}): number;
/**
 * What the consumer does after a step: START answers RUN, WAIT, SUSPECT or EXHAUSTED; BEGUN answers BEGUN or GONE; FAIL answers
 * REQUEUE or EXHAUSTED; END answers ENDED. To a copy from the later lane START and FAIL also answer STALE.
 */
export type Verdict = "RUN" | "WAIT" | "SUSPECT" | "EXHAUSTED" | "REQUEUE" | "ENDED" | "STALE" | "BEGUN" | "GONE";
/**
 * The store's reply to a step.
 */
export type Reply = {
    verdict: Verdict;
    /**
     * counted attempts whose handler failed
     */
    failures: number;
    /**
     * counted attempts whose process died
     */
    crashes: number;
    /**
     * in force: the operator's, else the one that the step was given
     */
    limit: number;
    /**
     * of the last attempt that START let run; 0: there is none
     */
    fence: number;
    /**
     * ms until the next attempt may begin
     */
    wait: number;
    /**
     * EXHAUSTED: of the last counted attempt; else empty
     */
    cause: string;
    /**
     * EXHAUSTED: of the last counted attempt, for people; else empty
     */
    reason: string;
    /**
     * this step is the first sign that two messages have this id
     */
    possibleDuplicate: boolean;
};
