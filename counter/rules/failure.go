package rules

import "time"

// Failure is a failed attempt, as Fail counts it.
type Failure struct {
	// counted attempts at which the message is exhausted, unless an operator set another limit; 0: it is exhausted now; at
	// most 1001
	Limit  int
	Wait   time.Duration // until the next attempt may begin, by the store's clock
	Cause  Cause         // if empty, CauseFailed
	Reason string        // the same for people; cut to MaxReason bytes
	Ran    time.Duration // how long the handler ran, for people

	// AtMost limits the counted attempts at a message that fails in this way: with so many, this one included, the
	// message is exhausted. It only lowers the Limit or its Override, for this step; the message's own limit replaces
	// it. Zero: no such limit.
	AtMost int
}

// Cause is why an attempt failed, or why a message was dead-lettered below its limit.
type Cause string

// The causes. Fail accepts the first six. Start itself counts the crash of a process that no Fail can report.
const (
	CauseFailed   Cause = "failed"    // the handler returned an error
	CausePanicked Cause = "panicked"  // the handler panicked
	CauseTimedOut Cause = "timed-out" // the handler passed its deadline
	CauseRejected Cause = "rejected"  // the handler asked for the dead-letter queue
	// the handler could not work, for a reason other than the message: never counted; Fail accepts it with a Progress
	CauseNotCounted Cause = "not-counted"
	CauseCrashed    Cause = "crashed" // a process died while it handled the message, which ran isolated
	CauseSkipped    Cause = "skipped" // an operator skipped the message; see Admin.Skip
	CauseBlocked    Cause = "blocked" // an earlier message blocks its lane; no record has this cause
	// it failed later than MaxAge after its first failed attempt; only tombstones have this cause
	CauseTooOld Cause = "too-old"
	CauseNoID   Cause = "no-id" // the message has no id to count it by; no record has this cause
)

// cause is the one that the record gets.
func (f Failure) cause() Cause {
	if f.Cause == "" {
		return CauseFailed
	}
	return f.Cause
}
