package rules

import (
	"fmt"
	"time"
)

// Verdict is the order of a step to the consumer.
type Verdict int

// The verdicts of the steps. Start, Begun and Fail return the first ten.
const (
	VerdictRun       Verdict = iota + 1 // Start: run the handler
	VerdictWait                         // Start: wait for Reply.Wait, then Start again with the same token
	VerdictSuspect                      // Start: let no other handler run, then Start with ModeIsolated and the same token
	VerdictRequeue                      // Fail: hold the delivery for Reply.Wait, then requeue it
	VerdictExhausted                    // Start, Fail: dead-letter the message
	// Start, Fail, with Attempt.Delay: publish a copy with Reply.CopyNumber, then Moved, then ack
	VerdictMove
	VerdictStale // Start, Fail, with Attempt.Delay: ack, a copy takes the place of this delivery
	VerdictHeld  // Start, Fail, with Attempt.HoldsQueue: keep the delivery; its queue is paused
	VerdictBegun // Begun: call the handler
	// Begun: do not call it: the attempt is not open any more. End it, and begin another
	VerdictGone
	VerdictEnded   // End
	VerdictMoved   // Moved
	VerdictLimited // LimitMessage
	VerdictReset   // Reset
	VerdictNone    // LimitMessage, Reset, Skip, NoteRemoved: the generation has no record
	VerdictOver    // LimitMessage, Skip: the message was handled or dead-lettered
	VerdictRemoved // NoteRemoved
	VerdictSkipped // Skip
)

var verdicts = map[string]Verdict{
	"RUN": VerdictRun, "WAIT": VerdictWait, "SUSPECT": VerdictSuspect, "REQUEUE": VerdictRequeue,
	"EXHAUSTED": VerdictExhausted,
	"MOVE":      VerdictMove, "STALE": VerdictStale, "HELD": VerdictHeld, "BEGUN": VerdictBegun, "GONE": VerdictGone,
	"ENDED": VerdictEnded, "MOVED": VerdictMoved, "LIMITED": VerdictLimited, "RESET": VerdictReset,
	"REMOVED": VerdictRemoved, "SKIPPED": VerdictSkipped,
	"NONE": VerdictNone, "OVER": VerdictOver,
}

// ParseVerdict reads a text of String; false: it is no verdict.
func ParseVerdict(name string) (Verdict, bool) {
	v, ok := verdicts[name]
	return v, ok
}

func (v Verdict) String() string {
	for name, is := range verdicts {
		if is == v {
			return name
		}
	}
	return fmt.Sprintf("Verdict(%d)", int(v))
}

// Reply is the store's reply to a step.
type Reply struct {
	Verdict  Verdict
	Failures int           // counted attempts whose handler failed
	Crashes  int           // counted attempts whose process died
	Limit    int           // in force: the operator's, else the one that the step was given
	Fence    int64         // of the last attempt that Start let run, greater than all before it; 0 if there is none
	Wait     time.Duration // until the next attempt may begin
	// VerdictExhausted: of the last counted attempt; VerdictHeld: why the message is exhausted; else empty
	Cause      Cause
	Reason     string // VerdictExhausted, VerdictHeld: of the last counted attempt, for people; else empty
	CopyNumber int64  // VerdictMove: the number that the copy carries; else 0

	// PossibleDuplicate reports that this step is the one that set Record.PossibleDuplicate.
	PossibleDuplicate bool
}

// Counted is the number of counted attempts, which the Limit bounds.
func (r Reply) Counted() int { return r.Failures + r.Crashes }
