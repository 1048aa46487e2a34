package rules

import (
	"time"
)

// crashReason is the reason of a crash that Start counts.
const crashReason = "the process died while this message ran isolated"

// Start says whether an attempt may run, and opens it. The limit is the consumer's, from 1. An isolated attempt is
// only reserved, until its Begun.
func Start(r *Record, q *Queue, a Attempt, mode Mode, limit int, now time.Time) (Reply, time.Duration) {
	s := arrive(r, q, a, limit, now)
	end := func(v ReplyCode, saves bool) (Reply, time.Duration) {
		consumer := a.Consumer
		if r.OpenToken != "" && r.OpenToken != a.Token {
			consumer = r.Consumer // stays that of the open attempt
		}
		return s.end(v, saves, consumer)
	}
	earlier := s.earlier()
	binds := s.now.Before(r.Binds) || r.Move.Top > 0 && r.Move.Body == a.Delay.Body
	switch {
	case s.superseded:
		if r.OpenToken == a.Token {
			r.close()
			s.changed = true
		}
		return end(ReplySuperseded, false)
	case r.State == StateDeadLetter && binds && !earlier:
		r.Binds = s.now.Add(TombstoneBinds) // its dead-lettering may be held again
		return end(ReplyExhausted, true)
	case r.OpenToken == a.Token || r.Tokens.Of(a.Token) != 0:
		// our reply was lost; or this START is late, and opens nothing
		return end(ReplyRun, false)
	case r.State == StateDeadLetter || r.State == StateDone && earlier:
		s.renew()
	case r.State == StateDone: // the ack was lost. Binds keeps that the message was handled
		r.State, r.Suspect = StateLive, false
		r.close()
	}
	if s.carried && r.Left(s.now) <= s.above {
		s.stay()
	}
	if r.OpenMode == ModeReserved && mode != ModeUntracked { // its handler did not begin, and must not from now on
		r.remember(r.OpenToken, KindNotCounted)
		r.close()
		r.Suspect = true
	}
	runs := s.runs()
	if runs == 0 && mode.isolated() && r.OpenMode == ModeIsolated { // its process died
		r.Crashes++
		r.remember(r.OpenToken, KindCrashed)
		r.count(CauseCrashed, crashReason, s.now)
		r.note(AttemptNote{Token: r.OpenToken, Consumer: r.Consumer}, s.now)
		r.Binds = time.Time{}
		r.close()
	}
	handled := !r.Binds.IsZero() // and no attempt was counted since
	spent, old := s.spent() && !handled, s.old() && !handled
	holds := a.HoldsQueue && r.State != StateSkip
	switch {
	case runs > 0: // perhaps at another copy
		s.rest = min(runs, MovePoll)
		return end(ReplyWait, true)
	case holds && r.State == StateHeld:
		return end(ReplyHeld, true)
	case holds && spent:
		return end(s.hold(r.Cause), true)
	case holds && old:
		return end(s.hold(CauseTooOld), true)
	case spent || r.State == StateSkip || r.State == StateHeld:
		return end(s.exhaust(), true)
	case old:
		r.Cause = CauseTooOld
		return end(s.exhaust(), true)
	case r.Left(s.now) > 0:
		code := ReplyWait
		if s.carried && r.Left(s.now) > s.above && r.Move.Top < MaxCopyNumber {
			code = s.move(code, true)
		}
		return end(code, true)
	case s.awaitsSuccess():
		return end(ReplyWait, true)
	case mode == ModeShared && (r.Suspect || r.OpenToken != ""):
		r.Suspect = true
		return end(ReplySuspect, true)
	}
	r.Starts++
	r.Suspect = r.Suspect || mode.isolated() // perhaps only this process knows
	r.Fence = max(r.Fence+1, a.Fence+1, now.UnixMicro())
	if mode != ModeUntracked || a.Delay.CopyNumber > 0 { // of copies one runs at a time
		if r.OpenToken != "" && mode != ModeUntracked {
			r.Suspect = true // the open attempt is overwritten, but not forgotten
		}
		r.OpenToken, r.OpenMode, r.OpenSince = a.Token, ModeShared, s.now
		if mode == ModeIsolated {
			r.OpenMode = ModeReserved
		}
	}
	return end(ReplyRun, true)
}

// Begun makes the open attempt of its token isolated: from now on the death of its process counts. The attempt is
// reserved. Or Start opened it beside an abandoned handler, its reply was lost, and Start was repeated as isolated,
// because the handler had returned by then.
func Begun(r *Record, q *Queue, a Attempt, now time.Time) (Reply, time.Duration) {
	now = now.Truncate(time.Millisecond)
	switch {
	case r.OpenToken != a.Token || r.State != StateLive:
		return r.reply(ReplyGone, 0, now), 0
	case r.OpenMode == ModeIsolated:
		return r.reply(ReplyBegun, 0, now), 0
	}
	r.OpenMode = ModeIsolated
	return r.reply(ReplyBegun, 0, now), r.save(a.Consumer, q.TTL, now)
}
