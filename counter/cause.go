package counter

import (
	"fmt"

	"github.com/strikesmq/strikes/internal/setting"
)

// Cause is why an attempt failed, or why a message was dead-lettered below its limit.
type Cause string

// The causes. Fail accepts the first four; Start itself counts a crash.
const (
	CauseFailed   Cause = "failed"    // the handler returned an error
	CausePanicked Cause = "panicked"  // the handler panicked
	CauseTimedOut Cause = "timed-out" // the handler passed its deadline
	CauseRejected Cause = "rejected"  // the handler asked for the dead-letter queue
	CauseCrashed  Cause = "crashed"   // the process died while the message ran isolated
	CauseSkipped  Cause = "skipped"   // an operator skipped the message; see Admin.Skip
	CauseBehind   Cause = "behind"    // an earlier message holds its lane; no record has this cause
	CauseTooOld   Cause = "too-old"   // it failed later than MaxAge after its first failed attempt; only tombstones have this cause
	CauseNoID     Cause = "no-id"     // the message has no id to count it by; no record has this cause
)

// crashReason is the reason of a crash, as scripts/start.lua writes it.
const crashReason = "the process died while this message ran isolated"

// cause is the one that the record gets.
func (f Failure) cause() Cause {
	if f.Cause == "" {
		return CauseFailed
	}
	return f.Cause
}

func (f Failure) validate() error {
	if f.AtMost < 0 {
		return fmt.Errorf("counter: fail: %w", setting.New("AtMost", f.AtMost, "0 at least"))
	}
	switch f.Cause {
	case "", CauseFailed, CausePanicked, CauseTimedOut, CauseRejected:
		return nil
	default:
		want := fmt.Sprintf("%s, %s, %s or %s", CauseFailed, CausePanicked, CauseTimedOut, CauseRejected)
		return fmt.Errorf("counter: fail: %w", setting.New("Cause", string(f.Cause), want))
	}
}
