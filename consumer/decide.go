package consumer

import (
	"time"

	"github.com/strikesmq/strikes/counter"
)

// step is what is to be done next with a delivery. Each decide function below is told what just happened and names the
// step that follows; advance.go and attempt.go take them.
type step int

const (
	stepStart    step = iota + 1 // ask the store whether the attempt may run
	stepAgain                    // begin another run in place
	stepRun                      // run the handler beside others
	stepIsolate                  // wait until no other exclusive attempt of this process is undecided, then stepRunAlone
	stepRunAlone                 // run the handler with nothing else in this process
	stepGate                     // wait until the gate is open, then stepRun
	stepFail                     // charge the failure
	stepEnd                      // close an attempt that succeeded
	stepPause                    // hold the delivery, then take the step after the pause
	stepRetract                  // close an attempt that did not run, then stepOverdue, or begin again if there is time
	stepOverdue                  // it was held for as long as it may be: give it back
	stepAck
	stepRequeue
	stepDeadLetter
	stepLeave  // close the attempt without a charge; the delivery returns with its session
	stepGiveUp // the same, and end the session: the delivery was held for too long
	stepDone   // settled, or left
)

// decideReceived is asked for each run: when a delivery arrives, and when it is to run again in place.
func decideReceived(hasID, redelivered bool, run int, iso Isolation) step {
	switch {
	case !hasID && !redelivered && run == 1:
		return stepRun
	case !hasID:
		return stepDeadLetter
	case iso == Strict:
		return stepIsolate
	case redelivered || run > 1:
		return stepStart
	}
	return stepRun
}

// decideStarted is asked after START answered. Zero: that is no answer to START.
func decideStarted(v counter.Verdict, mode counter.Mode) step {
	switch v {
	case counter.VerdictRun:
		if mode == counter.ModeIsolated || mode == counter.ModeBesideAbandoned {
			return stepRunAlone
		}
		return stepRun
	case counter.VerdictSuspect:
		return stepIsolate
	case counter.VerdictExhausted:
		return stepDeadLetter
	case counter.VerdictWait:
		return stepPause
	default:
		return 0
	}
}

// decideIsolated returns the mode of START for an isolated attempt. Abandoned handlers may still run beside it. If one of them
// kills the process, that must not count against this message, so the attempt is not opened exclusive then.
func decideIsolated(abandoned int64) counter.Mode {
	if abandoned > 0 {
		return counter.ModeBesideAbandoned
	}
	return counter.ModeIsolated
}

// decideUnstarted returns the step to take when START was not answered. A START that was sent under the isolation lock may have
// opened an exclusive attempt, which must be closed first.
func decideUnstarted(locked bool) step {
	if locked {
		return stepRetract
	}
	return stepStart
}

// ended is how a run of the handler ended.
type ended struct {
	ok       bool // the handler returned nil
	rejected bool // it asked for the dead-letter queue
	stopped  bool // it was cancelled, or was about to be: the failure may be no fault of the message's
	hasID    bool
	marked   bool // START let it run
}

// decideEnded is asked after the handler ran. A success or a Reject counts even while stopping: both are the handler's
// own word on the message.
func decideEnded(e ended) step {
	switch {
	case e.ok && e.marked:
		return stepEnd
	case e.ok:
		return stepAck
	case e.stopped && !e.rejected:
		return stepLeave
	case !e.hasID:
		return stepDeadLetter
	}
	return stepFail
}

// decideFailed is asked after FAIL answered: what to do, and what to do after the pause if that is stepPause. Zero: that is
// no answer to FAIL.
func decideFailed(v counter.Verdict, mode RetryMode) (next, afterPause step) {
	switch {
	case v == counter.VerdictExhausted:
		return stepDeadLetter, 0
	case v != counter.VerdictRequeue:
		return 0, 0
	case mode == InPlace:
		return stepPause, stepAgain
	}
	return stepPause, stepRequeue
}

// decidePause bounds a pause by what is left of the time for which the delivery may be held. After a pause that does not fit
// it is returned: the store keeps the rest of the wait for whoever takes the message next.
func decidePause(wait, left time.Duration, after step) (time.Duration, step) {
	if wait <= left {
		return max(wait, 0), after
	}
	return max(left, 0), stepOverdue
}

// decideOverdue is asked when a delivery was held for as long as it may be. Where others wait behind it, it does not go back
// alone: the session ends, and they return with it, in their order.
func decideOverdue(ordered bool) step {
	if ordered {
		return stepGiveUp
	}
	return stepRequeue
}

// decideOutage is asked when the store did not answer a step for the given time: to hold the delivery for a while and take
// the step again, or what ends the hold. A delivery that was handled is acked all the same, and a rejected one is
// dead-lettered; nothing else is decided on a guess.
func decideOutage(taking step, rejected bool, wait, left time.Duration) (next, after step) {
	switch {
	case taking == stepFail && rejected:
		return stepDeadLetter, 0
	case wait <= left:
		return stepPause, taking
	case taking == stepEnd:
		return stepAck, 0
	}
	return stepGiveUp, 0
}

// decideStopped is asked when a stop ends a pause, and told what would have followed.
func decideStopped(after step) step {
	if after == stepEnd {
		return stepAck
	}
	return stepLeave
}
