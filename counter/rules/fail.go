package rules

import (
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

// Fail counts a failed attempt once, however often and however late it arrives, and says whether the message is
// dead-lettered.
func Fail(r *Record, q *Queue, a Attempt, f Failure, now time.Time) (Reply, time.Duration) {
	s := arrive(r, q, a, max(f.Limit, 0), now)
	known, was := r.Tokens.Of(a.Token), r.State
	// a repetition does not judge attempts counted since
	if f.AtMost > 0 && f.AtMost < s.base && (known != KindFailed || was != StateLive) {
		s.base = f.AtMost
	}
	if known == 0 && (r.State == StateDeadLetter || r.State == StateDone) && s.earlier() {
		s.renew()
	}
	over := s.superseded && r.State == StateDone // another copy was handled
	counts, saves := false, r.OpenToken == a.Token
	fresh := known == 0 && r.State != StateDeadLetter && !over
	refused := s.judge(f, fresh)
	uncounted := refused || known == KindNotCounted && a.Progress.Breaker > 0 // our reply was lost
	switch {
	case known == KindCrashed && f.cause() == CauseNotCounted: // its process was taken for dead
		r.uncrash(a.Token)
		saves, uncounted = true, true
	case known == KindCrashed: // the same count, now with the true cause
		r.Crashes--
		r.unnote(a.Token)
		counts = true
	case refused:
		r.remember(a.Token, KindNotCounted)
		saves = true
	case fresh:
		s.lookForDouble()
		counts = true
	}
	if counts {
		r.Failures++
		if r.State == StateDone && !over {
			r.State = StateLive
		}
		if r.State != StateDeadLetter && !over {
			r.Binds = time.Time{}
		}
		r.remember(a.Token, KindFailed)
		r.count(f.cause(), printable.Cut(f.Reason, MaxReason), s.now)
		note := AttemptNote{Ran: max(f.Ran, 0).Truncate(time.Millisecond), Consumer: a.Consumer}
		if r.Cause == CauseCrashed {
			note = AttemptNote{Token: a.Token, Consumer: a.Consumer}
		}
		r.note(note, s.now)
		r.Wait = whole(f.Wait)
		r.Due = s.now.Add(r.Wait)
		saves = true
	}
	if r.OpenToken == a.Token {
		r.close()
	}

	code, spent := ReplyRequeue, s.spent()
	decides := known != KindNotCounted && r.State == StateLive
	old := decides && !spent && s.old()
	switch {
	case s.superseded: // the copy is dead-lettered instead
		code = ReplySuperseded
	case r.State == StateDeadLetter:
		code = ReplyExhausted
	case r.State == StateSkip, r.State == StateHeld && !a.HoldsQueue:
		code, saves = s.exhaust(), true
	case uncounted:
		code = ReplyUncounted
	case r.State == StateHeld:
		code = ReplyHeld
	case a.HoldsQueue && old:
		code, saves = s.hold(CauseTooOld), true
	case a.HoldsQueue && spent && decides:
		code, saves = s.hold(r.Cause), true
	case a.HoldsQueue && spent: // it is not dead-lettered, even if another step has decided about it
		code = ReplyHeld
	case old:
		r.Cause = CauseTooOld
		code, saves = s.exhaust(), true
	case spent && decides:
		code, saves = s.exhaust(), true
	case spent: // also if our reply was lost and the limit is lower now
		code = ReplyExhausted
	case s.carried && r.Move.Top < MaxCopyNumber && r.Left(s.now) <= s.above:
		s.stay()
	case s.carried && r.Move.Top < MaxCopyNumber:
		code = s.move(code, counts && was != StateDone)
	}
	return s.end(code, saves, a.Consumer)
}

// judge tells the breaker of the process's successes, and of the failure if it is fresh. It reports whether that is not
// counted, because of the breaker or because the handler says so.
func (s *step) judge(f Failure, fresh bool) (uncounted bool) {
	p := s.a.Progress
	if p.Breaker == 0 {
		return false
	}
	b, changed := s.breaker()
	if fresh && f.cause() != CauseRejected {
		everyCounts, outage := b.Count.After(s.now), p.Failing || b.Stops() || p.Attempt.Before(b.Closed)
		impatient := s.impatient(b)
		uncounted = f.cause() == CauseNotCounted || impatient || outage && !everyCounts
		// If messages that wait for a success fill the prefetch, no other message can fail. Their failures open the
		// breaker then, so that others are fetched.
		if !outage && !everyCounts && (impatient || s.Counted() == 0 || b.resumed()) {
			changed = b.Lengthen(s.ID, f.Reason, p.Breaker, s.now) || changed
		}
	}
	if changed {
		s.queue.Breaker = b
	}
	return uncounted
}

// lookForDouble looks for the first sign of a second message with the id of a failure that is counted next.
func (s *step) lookForDouble() {
	if !s.a.First || s.State == StateDone || s.PossibleDuplicate {
		return
	}
	s.PossibleDuplicate = s.FirstFailed || s.Counted() > 0 && !s.FirstTime.After(s.a.Received)
	s.FirstFailed = true
	s.double = s.double || s.PossibleDuplicate
}
