package audit

import (
	"slices"
	"time"
)

// A handler may be a request to another process, as in push mode. The same rules apply, but the consumer process does
// not always see what that process did:
//
//   - The other process may end during a request (Crashed) while the consumer lives. That counts if the attempt was
//     isolated, as if the
//     consumer had died; else the message becomes a suspect, and runs again.
//   - It may have handled a message and end before its response is out. So a consumer's crash or not-counted
//     overrules an OK.
//   - A consumer that was stopped for a while may find the response after its deadline, which counts: the deadline
//     decides, not the
//     time at which the other process was done.
//   - A request is over when the consumer has decided about it, also if the other process learns that later.

// Decisions about an attempt that left nothing counted at that time.
const (
	decidedNotCounted = "not-counted"
	decidedCrash      = "crash"
)

// early is how long the deadline of a request may begin before the other process has the request.
const early = time.Second

// crashedRemotely reports whether the other process ended during the attempt, as far as either side knows.
func (a *attempt) crashedRemotely() bool {
	_, is := a.decidedAs(decidedCrash)
	return a.remote && (is || a.outcome == Crashed)
}

// takenBack reports whether the consumer had no response, whatever the other process did, and counted nothing for it.
func (a *attempt) takenBack() bool {
	_, uncounted := a.decidedAs(decidedNotCounted)
	return a.remote && uncounted || a.crashedRemotely()
}

// again reports whether an earlier attempt of the process at the message was taken back. Then this one is not the
// first, although its delivery is. If the message has copies, it may be the first at another delivery, which took no
// step.
func (a *attempt) again(msg *message) bool {
	if msg.copies > 1 && len(a.steps) == 0 {
		return false
	}
	return slices.ContainsFunc(msg.attempts, func(x *attempt) bool {
		return x != a && x.process == a.process && x.takenBack()
	})
}

// lateResponse reports whether the consumer counted a failure when its deadline may have been over.
func (a *attempt) lateResponse() bool {
	e, failed := a.answered(StepFail, "")
	return a.remote && failed && !e.At.Before(a.until.Add(-early))
}

// over is when the consumer was done with a request, if that was before its end; zero: it was not.
func (a *attempt) over() (at time.Time) {
	if !a.remote {
		return at
	}
	for _, e := range a.steps {
		if closes(e) {
			at = e.At.Add(-e.Took)
			break
		}
	}
	for _, e := range a.decided {
		if at.IsZero() || e.At.Before(at) {
			at = e.At
		}
	}
	return at
}
