package rules

import (
	"slices"
	"time"
)

// ReplyCode is the order of a step to the consumer, as the scripts write it.
type ReplyCode string

// The replies to the steps. Start, Begun and Fail return the first eleven.
const (
	ReplyRun       ReplyCode = "RUN"       // Start: run the handler
	ReplyWait      ReplyCode = "WAIT"      // Start: wait for Reply.Wait, then Start again with the same token
	ReplySuspect   ReplyCode = "SUSPECT"   // Start: let no other handler run, then Start again with ModeIsolated
	ReplyRequeue   ReplyCode = "REQUEUE"   // Fail: hold the delivery for Reply.Wait, then requeue it
	ReplyExhausted ReplyCode = "EXHAUSTED" // Start, Fail: dead-letter the message
	// Start, Fail, with Attempt.Delay: publish a copy with Reply.CopyNumber, then Moved, then ack
	ReplyMove       ReplyCode = "MOVE"
	ReplySuperseded ReplyCode = "SUPERSEDED" // Start, Fail, with Attempt.Delay: ack, a copy takes its place
	ReplyHeld       ReplyCode = "HELD"       // Start, Fail, with Attempt.HoldsQueue: keep it, and call HoldQueue
	// Fail, with Attempt.Progress: the failure is not counted: hold the delivery for its next attempt
	ReplyUncounted ReplyCode = "UNCOUNTED"
	ReplyBegun     ReplyCode = "BEGUN" // Begun: call the handler
	// Begun: do not call it: the attempt is not open any more. End it, and begin another
	ReplyGone    ReplyCode = "GONE"
	ReplyEnded   ReplyCode = "ENDED"   // End
	ReplyMoved   ReplyCode = "MOVED"   // Moved
	ReplyLimited ReplyCode = "LIMITED" // LimitMessage
	ReplyReset   ReplyCode = "RESET"   // Reset
	ReplyNone    ReplyCode = "NONE"    // LimitMessage, Reset, Skip, NoteRemoved: the generation has no record
	ReplyOver    ReplyCode = "OVER"    // LimitMessage, Skip: the message was handled or dead-lettered
	ReplyRemoved ReplyCode = "REMOVED" // NoteRemoved
	ReplySkipped ReplyCode = "SKIPPED" // Skip
)

// codes are the replies that scripts give.
var codes = []ReplyCode{ReplyRun, ReplyWait, ReplySuspect, ReplyRequeue, ReplyExhausted, ReplyMove, ReplySuperseded,
	ReplyHeld, ReplyUncounted, ReplyBegun, ReplyGone, ReplyEnded}

// OfScript reports whether a script gives this reply.
func (v ReplyCode) OfScript() bool { return slices.Contains(codes, v) }

func (v ReplyCode) String() string { return string(v) }

// Reply is the store's reply to a step.
type Reply struct {
	Code     ReplyCode
	Failures int           // attempts that Fail counted, also those with CauseCrashed
	Crashes  int           // attempts that Start counted, because their consumer died
	Limit    int           // in force: the operator's, else the one that the step was given
	Fence    int64         // of the last attempt that Start let run, greater than all before it; 0 if there is none
	Wait     time.Duration // until the next attempt may begin
	// ReplyExhausted: of the last counted attempt; ReplyHeld: why the message is exhausted; else empty
	Cause      Cause
	Reason     string // ReplyExhausted, ReplyHeld: of the last counted attempt, for people; else empty
	CopyNumber int64  // ReplyMove: the number that the copy carries; else 0

	// PossibleDuplicate reports that this step is the one that set Record.PossibleDuplicate.
	PossibleDuplicate bool
}

// Counted is the number of counted attempts, which the Limit bounds.
func (r Reply) Counted() int { return r.Failures + r.Crashes }
