package counter

import (
	"fmt"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/setting"
)

// checkOwner checks the token of a session beside the name of its queue.
func checkOwner(queue, owner string) error {
	return checkAttempt(Attempt{Message: Message{Queue: queue, ID: "-"}, Token: owner})
}

func checkAttempt(a Attempt) error {
	if err := refusedField(a); err != nil {
		return fmt.Errorf("counter: queue %q: %w", a.Queue, err)
	}
	return nil
}

// refusedField returns the error of the first field that is refused.
func refusedField(a Attempt) error {
	switch p := a.Progress; {
	case a.Queue == "":
		return setting.New("Queue", "", "the name of the message's queue")
	case a.ID == "":
		return setting.New("ID", "", "the id of the message, which cannot be counted without one")
	case a.Fence < 0 || a.Fence > rules.MaxFence:
		return setting.New("Fence", a.Fence, fmt.Sprintf("0 to %d", int64(rules.MaxFence)))
	case a.MaxAge < 0:
		return setting.New("MaxAge", a.MaxAge, "0s at least")
	case !validToken(a.Token):
		return setting.New("Token", a.Token, "1 to 64 characters of A-Z a-z 0-9 _ -")
	case p.Breaker < 0 || p.Breaker > rules.MaxBreaker || p.Patience < 0:
		return setting.New("Progress", fmt.Sprint(p.Breaker, " ", p.Patience),
			fmt.Sprintf("a Breaker of 0 to %d, and a Patience of 0s or more", rules.MaxBreaker))
	}
	return checkDelay(a.Delay)
}

func validToken(t string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return t != "" && len(t) <= 64 && strings.Trim(t, letters) == ""
}

func checkDelay(l rules.Delay) error {
	switch {
	case l.CopyNumber < 0 || l.CopyNumber > rules.MaxCopyNumber:
		return setting.New("Delay.CopyNumber", l.CopyNumber, fmt.Sprintf("0 to %d", int64(rules.MaxCopyNumber)))
	case l != (rules.Delay{}) && (l.Body == "" || len(l.Body) > 32 || strings.Trim(l.Body, "0123456789abcdef") != ""):
		return setting.New("Delay.Body", l.Body, "1 to 32 of 0-9 a-f")
	}
	return nil
}

func checkFailure(a Attempt, f Failure) error {
	if f.AtMost < 0 {
		return fmt.Errorf("counter: fail: %w", setting.New("AtMost", f.AtMost, "0 at least"))
	}
	switch f.Cause {
	case CauseNotCounted:
		if a.Progress.Breaker == 0 {
			return fmt.Errorf("counter: fail: %w", setting.New("Cause", string(f.Cause), "one with which a failure counts, "+
				"because the attempt has no Progress"))
		}
		return nil
	case "", CauseFailed, CausePanicked, CauseTimedOut, CauseRejected, CauseCrashed:
		return nil
	default:
		want := fmt.Sprintf("%s, %s, %s, %s or %s", CauseFailed, CausePanicked, CauseTimedOut, CauseRejected, CauseCrashed)
		return fmt.Errorf("counter: fail: %w", setting.New("Cause", string(f.Cause), want))
	}
}

// ageOf is how many ms this process has had the delivery of a first attempt; -1 for other attempts.
func ageOf(a Attempt) int64 {
	switch {
	case !a.First:
		return -1
	case a.Received.IsZero():
		return 0
	}
	return rules.CeilMillis(time.Since(a.Received))
}
