package counter

import (
	"cmp"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

// start is scripts/start.lua. It reports whether the record must be written.
func (e *entry) start(a Attempt, asked Mode, limit allowed, now time.Time) (Reply, bool) {
	v := e.arrive(a.Later)
	e.unknown(&v)
	earlier := e.earlier(a, now)
	reply := func(verdict Verdict, writes bool) (Reply, bool) {
		r := e.reply(verdict, limit, now)
		r.PossibleDuplicate = v.double
		if v.changed && e.State != StateDeadLetter {
			e.Limit = limit.configured
		}
		return r, writes || v.changed
	}
	bound := now.Before(e.Binds) || e.Move.Top > 0 && e.Move.Body == v.body
	switch {
	case v.stale:
		if e.OpenToken == a.Token {
			e.close()
			v.changed = true
		}
		return reply(VerdictStale, false)
	case e.State == StateDeadLetter && bound && !earlier:
		e.Binds = now.Add(tombstoneBinds) // its dead-lettering may be held again
		return reply(VerdictExhausted, true)
	case e.OpenToken == a.Token || e.Tokens[a.Token] != 0:
		return reply(VerdictRun, false)
	case e.State == StateDeadLetter || e.State == StateDone && earlier:
		e.renew(&v)
	case e.State == StateDone:
		e.State, e.Suspect = StateLive, false // Binds keeps that it was handled
		e.close()
	}
	if v.carried && e.Left(now) <= v.above {
		e.stay(&v)
	}
	if e.OpenMode == ModeReserved && asked != ModeUntracked { // its handler did not begin, and must not from now on
		e.remember(e.OpenToken, KindNotCounted)
		e.close()
		e.Suspect = true
	}
	rest := e.runs(v, now)
	if rest == 0 && asked.isolated() && e.OpenToken != "" && e.OpenMode == ModeIsolated {
		e.crashed(cmp.Or(printable.Cut(a.Crash, MaxReason), crashReason), now)
	}
	e.Limit = limit.configured
	if rest > 0 {
		r, writes := reply(VerdictWait, true)
		r.Wait = min(rest, movePoll)
		return r, writes
	}
	verdict := e.permit(a, asked, limit, now)
	if verdict == VerdictWait && v.carried && e.Left(now) > v.above && e.Move.Top < MaxHop {
		var moves Verdict
		if moves, rest = e.move(&v, a.Token, true, now); moves != 0 {
			verdict = moves
		}
	}
	r, writes := reply(verdict, true)
	if rest > 0 {
		r.Wait = rest
	}
	if verdict == VerdictMove {
		r.Hop = e.Move.Top
	}
	return r, writes
}

// begun is scripts/begun.lua. It reports whether the record must be written.
func (e *entry) begun(a Attempt) (Verdict, bool) {
	if e.OpenToken != a.Token || e.State != StateLive {
		return VerdictGone, false
	}
	reserved := e.OpenMode == ModeReserved
	if reserved {
		e.OpenMode = ModeIsolated
	}
	return VerdictBegun, reserved
}

// crashed counts the isolated attempt that began and never ended.
func (e *entry) crashed(reason string, now time.Time) {
	e.Crashes++
	e.remember(e.OpenToken, KindCrashed)
	e.counted(CauseCrashed, reason, now)
	e.note(e.OpenToken, e.Holder, 0, now)
	e.Binds = time.Time{}
	e.close()
}

func (e *entry) permit(a Attempt, asked Mode, limit allowed, now time.Time) Verdict {
	spent, old := e.exhausted(limit) && e.Binds.IsZero(), e.tooOld(a.MaxAge) && e.Binds.IsZero()
	switch {
	case a.HoldsQueue && e.State != StateSkip && e.queue.holds(e.Message) && e.Counted() > 0:
		e.hold(e.queue.holding.Cause, a.Holder, now)
		return VerdictHeld
	case a.HoldsQueue && e.State != StateSkip && (spent || old):
		e.hold(e.exhaustedBy(old && !spent), a.Holder, now)
		return VerdictHeld
	case spent, e.State == StateSkip:
		e.exhaust(limit, now)
		return VerdictExhausted
	case old:
		e.Cause = CauseTooOld
		e.exhaust(limit, now)
		return VerdictExhausted
	case e.Left(now) > 0:
		return VerdictWait
	case asked == ModeShared && (e.Suspect || e.OpenToken != ""):
		e.Suspect = true
		return VerdictSuspect
	}
	e.Starts++
	e.Fence = max(e.Fence+1, a.Floor+1, time.Now().UnixMicro())
	if asked != ModeUntracked || a.Later.Hop > 0 { // of copies one runs at a time
		if e.OpenToken != "" && asked != ModeUntracked {
			e.Suspect = true
		}
		e.OpenToken, e.OpenMode, e.OpenSince = a.Token, ModeShared, now
		if asked == ModeIsolated {
			e.OpenMode = ModeReserved
		}
	}
	return VerdictRun
}

// fail is scripts/fail.lua. It reports whether the record must be written.
func (e *entry) fail(a Attempt, f Failure, limit allowed, now time.Time) (Reply, bool) {
	token, was := a.Token, e.State
	v := e.arrive(a.Later)
	e.unknown(&v)
	known := e.Tokens[token]
	if known == 0 && (e.State == StateDeadLetter || e.State == StateDone) && e.earlier(a, now) {
		e.renew(&v)
	}
	changes := e.OpenToken == token
	counts, double := e.countFailure(a, f, v.stale && e.State == StateDone, now)
	verdict, decided := e.judge(a, limit, known != KindNotCounted, v.stale, now)
	changes = changes || counts || decided
	if e.OpenToken == token {
		e.close()
	}
	verdict, rest := e.afterFail(&v, verdict, token, counts && was != StateDone, now)
	changes = changes || v.changed
	if changes && limit.configured > 0 && e.State != StateDeadLetter {
		e.Limit = limit.configured
	}
	reply := e.reply(verdict, limit, now)
	reply.PossibleDuplicate = double || v.double
	if rest > 0 {
		reply.Wait = rest
	}
	if verdict == VerdictMove {
		reply.Hop = e.Move.Top
	}
	return reply, changes
}

// countFailure counts an attempt that is not counted as a failure yet. Over says that another copy of the message was handled. It
// reports whether it counted, and whether that is the first sign of two messages with this id.
func (e *entry) countFailure(a Attempt, f Failure, over bool, now time.Time) (counts, double bool) {
	known := e.Tokens[a.Token]
	switch {
	case known == KindCrashed:
		e.Crashes, e.Failures = e.Crashes-1, e.Failures+1
		e.unnote(a.Token)
	case known == 0 && e.State != StateDeadLetter && !over:
		double = e.isDouble(a, now)
		e.Failures++
	default:
		return false, false
	}
	if !over {
		e.reopen()
	}
	e.failed(a, f, now)
	return true, double
}

// judge holds the queue for the message or dead-letters it, if it is exhausted and its attempt says so. It reports whether it did.
func (e *entry) judge(a Attempt, limit allowed, counted, stale bool, now time.Time) (verdict Verdict, decided bool) {
	spent, live := e.exhausted(limit), counted && e.State == StateLive && !stale
	old := live && !spent && e.tooOld(a.MaxAge)
	holds := a.HoldsQueue && (e.State == StateLive || e.State == StateDone) && !stale && (spent || old)
	if old && !holds {
		spent, e.Cause = true, CauseTooOld
	}
	switch {
	case holds && live:
		e.hold(e.exhaustedBy(old), a.Holder, now)
		decided = true
	case e.State == StateSkip && !stale, live && spent: // else the copy is dead-lettered instead
		e.exhaust(limit, now)
		decided = true
	}
	switch {
	case holds:
		return VerdictHeld, decided
	case e.State == StateDeadLetter || spent:
		return VerdictExhausted, decided
	}
	return VerdictRequeue, decided
}

// reopen makes a message live that was handled, or is.
func (e *entry) reopen() {
	if e.State == StateDone {
		e.State = StateLive
	}
	if e.State != StateDeadLetter {
		e.Binds = time.Time{}
	}
}

// failed keeps what a failed attempt said of itself.
func (e *entry) failed(a Attempt, f Failure, now time.Time) {
	e.remember(a.Token, KindFailed)
	e.counted(f.cause(), printable.Cut(f.Reason, MaxReason), now)
	e.note(a.Token, printable.Cut(a.Holder, maxStoredID), max(f.Ran, 0).Truncate(time.Millisecond), now)
	e.Wait = time.Duration(ceilMillis(f.Wait)) * time.Millisecond
	e.Due = now.Add(e.Wait)
}

// afterFail turns the verdict of FAIL into that of a message that is moved, or was.
func (e *entry) afterFail(v *moving, verdict Verdict, token string, begins bool, now time.Time) (Verdict, time.Duration) {
	switch {
	case v.stale:
		return VerdictStale, 0
	case !v.carried || verdict != VerdictRequeue || e.Move.Top >= MaxHop:
	case e.Left(now) <= v.above:
		e.stay(v)
	default:
		if moves, rest := e.move(v, token, begins, now); moves != 0 || rest > 0 {
			if moves == 0 {
				moves = verdict
			}
			return moves, rest
		}
	}
	return verdict, 0
}

// isDouble decides whether a failure that is counted next is the first sign of a second message with this id.
func (e *entry) isDouble(a Attempt, now time.Time) bool {
	if !a.First || e.State == StateDone || e.PossibleDuplicate {
		return false
	}
	received := now.Add(-time.Duration(a.age()) * time.Millisecond)
	e.PossibleDuplicate = e.firsts || e.Counted() > 0 && !e.FirstTime.After(received)
	e.firsts = true
	return e.PossibleDuplicate
}

// end is scripts/end.lua for a token that has not ended before.
func (e *entry) end(a Attempt, succeeded bool, now time.Time) {
	token := a.Token
	by := Note{By: printable.Cut(a.Holder, maxStoredID), At: now}
	switch {
	case e.Tokens[token] == KindCrashed:
		by.Why = "a crash of the message that held the queue turned out to be none"
		e.queue.free(e.Message, by)
	case succeeded && e.Counted() > 0:
		by.Why = "the message that held the queue was handled"
		e.queue.free(e.Message, by)
	}
	if e.Tokens[token] == KindCrashed {
		e.Crashes--
		e.unnote(token)
		if e.Counted() == 0 && e.State != StateDeadLetter { // its age begins anew
			e.FirstTime, e.LastTime, e.Cause, e.Reason = time.Time{}, time.Time{}, "", ""
		}
	}
	if e.Tokens[token] != KindFailed {
		e.remember(token, KindNotCounted)
	}
	if e.OpenToken == token {
		e.close()
	}
	if succeeded {
		if e.State == StateSkip {
			e.Skipped = Note{}
		}
		e.State, e.Binds = StateDone, now.Add(tombstoneBinds)
	}
}
