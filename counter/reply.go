package counter

import (
	"errors"
	"fmt"
	"time"
)

// ErrReply is wrapped by every method if a server replies to a script with something else than the script's reply. The server
// is no Redis, or something between it and this process changes replies. Decide nothing from such a reply.
var ErrReply = errors.New("unexpected reply")

// Verdict is what a step tells the consumer to do.
type Verdict int

// The verdicts of Start, Begun and Fail.
const (
	VerdictRun       Verdict = iota + 1 // Start: run the handler
	VerdictWait                         // Start: wait for Reply.Wait, then Start again with the same token
	VerdictSuspect                      // Start: let no other handler run, then Start with ModeIsolated and the same token
	VerdictRequeue                      // Fail: hold the delivery for Reply.Wait, then requeue it
	VerdictExhausted                    // Start, Fail: dead-letter the message
	VerdictMove                         // Start, Fail, with Attempt.Later: publish a copy with Reply.Hop, then Moved, then ack
	VerdictStale                        // Start, Fail, with Attempt.Later: ack, a copy takes the place of this delivery
	VerdictHeld                         // Start, Fail, with Attempt.HoldsQueue: keep the delivery; its queue is paused
	VerdictBegun                        // Begun: call the handler
	VerdictGone                         // Begun: do not call it: the attempt is not open any more. End it, and begin another
	verdictEnded                        // End
	verdictMoved                        // Moved
	verdictGranted                      // Grant
	verdictReset                        // Reset
	verdictNone                         // Grant, Reset, Skip, NoteRemoved: the generation has no record
	verdictOver                         // Grant, Skip: the message was handled or dead-lettered
	verdictRemoved                      // NoteRemoved
	verdictSkipped                      // Skip
)

var verdicts = map[string]Verdict{
	"RUN": VerdictRun, "WAIT": VerdictWait, "SUSPECT": VerdictSuspect, "REQUEUE": VerdictRequeue, "EXHAUSTED": VerdictExhausted,
	"MOVE": VerdictMove, "STALE": VerdictStale, "HELD": VerdictHeld, "BEGUN": VerdictBegun, "GONE": VerdictGone,
	"ENDED": verdictEnded, "MOVED": verdictMoved, "GRANTED": verdictGranted, "RESET": verdictReset, "REMOVED": verdictRemoved, "SKIPPED": verdictSkipped,
	"NONE": verdictNone, "OVER": verdictOver,
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
	Cause    Cause         // VerdictExhausted: of the last counted attempt; VerdictHeld: why the message is exhausted; else empty
	Reason   string        // VerdictExhausted, VerdictHeld: of the last counted attempt, for people; else empty
	Hop      int64         // VerdictMove: the number that the copy carries; else 0

	// PossibleDuplicate reports that this step is the one that set Record.PossibleDuplicate.
	PossibleDuplicate bool
}

// Counted is the number of counted attempts, which the Limit bounds.
func (r Reply) Counted() int { return r.Failures + r.Crashes }

// parseReply reads a script's reply to one step.
func parseReply(reply any) (Reply, error) {
	list, ok := reply.([]any)
	if !ok || len(list) != 9 && len(list) != 10 {
		return Reply{}, fmt.Errorf("%w: got %.80q, want 9 values", ErrReply, fmt.Sprint(reply))
	}
	hop, isCount := int64(0), true
	if len(list) == 10 {
		hop, isCount = list[9].(int64)
	}
	if !isCount || hop < 0 {
		return Reply{}, fmt.Errorf("%w: value 9: got %.80q, want a count", ErrReply, fmt.Sprint(list[9]))
	}
	double, ok := list[8].(int64)
	if !ok {
		return Reply{}, fmt.Errorf("%w: value 8: got %.80q, want 0 or 1", ErrReply, fmt.Sprint(list[8]))
	}
	var n [5]int64
	for i := range n {
		if n[i], ok = list[i+1].(int64); !ok || n[i] < 0 {
			return Reply{}, fmt.Errorf("%w: value %d: got %.80q, want a count", ErrReply, i+1, fmt.Sprint(list[i+1]))
		}
	}
	name, _ := list[0].(string)
	verdict, ok := verdicts[name]
	if !ok {
		return Reply{}, fmt.Errorf("%w: verdict %.80q", ErrReply, fmt.Sprint(list[0]))
	}
	cause, _ := list[6].(string)
	reason, _ := list[7].(string)
	if verdict != VerdictMove {
		hop = 0
	}
	return Reply{
		Hop: hop, Verdict: verdict, Failures: int(n[0]), Crashes: int(n[1]), Limit: int(n[2]), Fence: n[3],
		Wait: time.Duration(min(n[4], maxWaitMillis)) * time.Millisecond, Cause: Cause(cause), Reason: reason, PossibleDuplicate: double == 1,
	}, nil
}
