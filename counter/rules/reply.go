package rules

import (
	"fmt"
	"time"
)

// ReplyCode is the order of a step to the consumer.
type ReplyCode int

// The reply of the steps. Start, Begun and Fail return the first eleven.
const (
	ReplyRun       ReplyCode = iota + 1 // Start: run the handler
	ReplyWait                           // Start: wait for Reply.Wait, then Start again with the same token
	ReplySuspect                        // Start: let no other handler run, then Start with ModeIsolated and the same token
	ReplyRequeue                        // Fail: hold the delivery for Reply.Wait, then requeue it
	ReplyExhausted                      // Start, Fail: dead-letter the message
	// Start, Fail, with Attempt.Delay: publish a copy with Reply.CopyNumber, then Moved, then ack
	ReplyMove
	ReplySuperseded // Start, Fail, with Attempt.Delay: ack, a copy takes the place of this delivery
	ReplyHeld       // Start, Fail, with Attempt.HoldsQueue: keep the delivery; its queue is paused
	// Fail, with Attempt.Progress: the failure is not counted: hold the delivery for its next attempt
	ReplyUncounted
	ReplyBegun // Begun: call the handler
	// Begun: do not call it: the attempt is not open any more. End it, and begin another
	ReplyGone
	ReplyEnded   // End
	ReplyMoved   // Moved
	ReplyLimited // LimitMessage
	ReplyReset   // Reset
	ReplyNone    // LimitMessage, Reset, Skip, NoteRemoved: the generation has no record
	ReplyOver    // LimitMessage, Skip: the message was handled or dead-lettered
	ReplyRemoved // NoteRemoved
	ReplySkipped // Skip
)

var replyCodes = map[string]ReplyCode{
	"RUN": ReplyRun, "WAIT": ReplyWait, "SUSPECT": ReplySuspect, "REQUEUE": ReplyRequeue,
	"EXHAUSTED": ReplyExhausted,
	"MOVE":      ReplyMove, "SUPERSEDED": ReplySuperseded, "HELD": ReplyHeld, "UNCOUNTED": ReplyUncounted,
	"BEGUN": ReplyBegun, "GONE": ReplyGone,
	"ENDED": ReplyEnded, "MOVED": ReplyMoved, "LIMITED": ReplyLimited, "RESET": ReplyReset,
	"REMOVED": ReplyRemoved, "SKIPPED": ReplySkipped,
	"NONE": ReplyNone, "OVER": ReplyOver,
}

// ParseReplyCode reads a text of String; false: it is no reply.
func ParseReplyCode(name string) (ReplyCode, bool) {
	v, ok := replyCodes[name]
	return v, ok
}

func (v ReplyCode) String() string {
	for name, is := range replyCodes {
		if is == v {
			return name
		}
	}
	return fmt.Sprintf("ReplyCode(%d)", int(v))
}

// Reply is the store's reply to a step.
type Reply struct {
	Code     ReplyCode
	Failures int           // counted attempts whose handler failed
	Crashes  int           // counted attempts whose process died
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
