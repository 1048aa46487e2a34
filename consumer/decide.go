package consumer

import (
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
)

// step is the next thing to do with a delivery. Each decide function takes the last event and returns the step that
// follows. Together they are the whole state table; deliver takes the steps.
type step int

const (
	stepBegin     step = iota + 1 // begin an attempt at this delivery, the first or another one
	stepReceived                  // the rooms let it begin
	stepStart                     // ask the store whether it may begin
	stepIsolate                   // the same, with no other handler beside it
	stepRun                       // wait for a worker
	stepCall                      // call the handler
	stepEnded                     // the handler has ended
	stepFail                      // count the failed attempt
	stepEnd                       // close an attempt that succeeded
	stepWait                      // the delivery waits for its backoff
	stepRetract                   // close an attempt that did not run
	stepUncount                   // close an attempt that is not counted; the delivery waits before the next
	stepUncounted                 // the attempt is closed and not counted; the delivery waits before the next
	stepHeld                      // the delivery holds its queue, and waits until the pause ends the session
	// leave the attempt open, as if this process had died; the delivery waits before the next, which is isolated
	stepSuspect
	stepOverdue    // the delivery has waited for as long as it may
	stepMove       // publish a copy that waits in a delay queue
	stepMoved      // ack: the copy is confirmed
	stepSuperseded // ack: a copy takes the place of the delivery
	stepAck
	stepRequeue
	stepDeadLetter
	stepLeave  // the delivery returns with its session; nothing is counted
	stepGiveUp // the same, and the session ends: the delivery was held for too long
)

// decideReceived returns the step for a new attempt: at a delivery that has just arrived, or at one that is tried again
// in place. A suspect here is one that this process knows of.
func decideReceived(hasID, first, suspect bool, iso Isolation) step {
	switch {
	case !hasID && first:
		return stepRun
	case !hasID:
		return stepDeadLetter
	case suspect && iso == IsolationSuspects:
		return stepIsolate
	case !first:
		return stepStart
	}
	return stepRun
}

// decideStarted returns the step for the store's reply on START, and zero for one that START does not have.
func decideStarted(v rules.ReplyCode) step {
	switch v {
	case rules.ReplyRun:
		return stepRun
	case rules.ReplySuspect:
		return stepIsolate
	case rules.ReplyExhausted:
		return stepDeadLetter
	case rules.ReplyWait:
		return stepWait
	case rules.ReplyMove:
		return stepMove
	case rules.ReplySuperseded:
		return stepSuperseded
	case rules.ReplyHeld:
		return stepHeld
	default:
		return 0
	}
}

// decideMode returns the mode of START for an isolated attempt. Abandoned handlers may still run beside it. If one of
// them kills the process, that must not count against this message, so the attempt is not opened as isolated then.
func decideMode(abandoned int64) rules.Mode {
	if abandoned > 0 {
		return rules.ModeBesideAbandoned
	}
	return rules.ModeIsolated
}

// decideUnstarted returns the step to hold the delivery for after a START or BEGUN without a reply that lets the
// handler run. If the attempt is isolated and may be open, it must be closed first.
func decideUnstarted(sending step, open bool) step {
	if sending == stepIsolate && open {
		return stepRetract
	}
	return sending
}

// decideEnded returns the step after the handler ended. A success or a Reject counts even while stopping: both are the
// handler's own decision about the message. Another failure of a stopped handler, whose context was cancelled or was
// about to be, may be no fault of the message's.
func decideEnded(o outcome, stopped, hasID, open, isolated bool) step {
	rejected := o.cause == counter.CauseRejected
	switch {
	case o.err == nil && open:
		return stepEnd
	case o.err == nil:
		return stepAck
	case stopped && !rejected:
		return stepLeave
	case o.failed.uncounted && !rejected:
		return stepUncount
	case !hasID:
		return stepDeadLetter
	case o.failed.crashed && !rejected && !isolated:
		return stepSuspect
	}
	return stepFail
}

// decideFailed returns the step for the store's reply on FAIL, and zero for one that FAIL does not have.
func decideFailed(v rules.ReplyCode) step {
	switch v {
	case rules.ReplyExhausted:
		return stepDeadLetter
	case rules.ReplyRequeue:
		return stepWait
	case rules.ReplyMove:
		return stepMove
	case rules.ReplySuperseded:
		return stepSuperseded
	case rules.ReplyHeld:
		return stepHeld
	case rules.ReplyUncounted:
		return stepUncounted
	default:
		return 0
	}
}

// decideWaited returns the step after a wait that the reply to a step asked for, such as the backoff of a failure.
func decideWaited(asked step, mode RetryMode) step {
	switch {
	case asked != stepFail:
		return asked
	case mode == RetryInPlace:
		return stepBegin
	}
	return stepRequeue
}

// decideWait bounds a wait by the rest of the time for which the delivery may be held. If the wait does not fit, the
// delivery is overdue after it: the store keeps the rest of the wait for the next receiver.
func decideWait(wait, left time.Duration, after step) (time.Duration, step) {
	if wait <= left {
		return max(wait, 0), after
	}
	return max(left, 0), stepOverdue
}

// decideOverdue returns the step for a delivery that was held for as long as it may be. Where others wait for it, it
// does not go back alone: the session ends, and they return with it, in their order.
func decideOverdue(awaited bool) step {
	if awaited {
		return stepGiveUp
	}
	return stepRequeue
}

// decideOutage returns the step after the store did not take one: the same after a wait, or the one that ends the
// hold. A delivery that was handled is acked anyway, and a rejected one is dead-lettered. Nothing else is decided on a
// guess.
func decideOutage(sending step, rejected bool, wait, left time.Duration) step {
	switch {
	case sending == stepFail && rejected:
		return stepDeadLetter
	case wait <= left:
		return sending
	case sending == stepEnd:
		return stepAck
	}
	return stepGiveUp
}

// decideStopped returns the step after a stop ended a wait, instead of the one that would have followed.
func decideStopped(after step) step {
	if after == stepEnd {
		return stepAck
	}
	return stepLeave
}

// waited is how a wait ended.
type waited int

const (
	waitOver waited = iota + 1
	waitStopped
	waitSkipped // an operator decides about the message
)
