package rules

import "time"

// End closes an attempt that is not counted. If it was counted as a crash, End reverses that.
func End(r *Record, q *Queue, a Attempt, succeeded bool, now time.Time) (Reply, time.Duration) {
	now = now.Truncate(time.Millisecond)
	known := r.Tokens.Of(a.Token)
	if known == KindNotCounted { // our reply was lost
		return r.reply(ReplyEnded, 0, now), 0
	}
	if known == KindCrashed {
		r.uncrash(a.Token)
	}
	if known != KindFailed { // a FAIL whose reply was lost has counted it, which stands
		r.remember(a.Token, KindNotCounted)
	}
	if r.OpenToken == a.Token {
		r.close()
	}
	if succeeded {
		if r.State == StateSkip {
			r.Skipped = Note{}
		}
		r.State, r.Binds = StateDone, now.Add(TombstoneBinds)
	}
	keep := q.TTL
	if r.Move.Top == 0 && (r.State == StateDone || r.TTL == 0) { // also if the store forgot, or our START is late
		keep = KeepDone
	}
	return r.reply(ReplyEnded, 0, now), r.save(a.Consumer, keep, now)
}

// uncrash takes back that an attempt was counted as a crash: nothing is counted.
func (r *Record) uncrash(token string) {
	r.Crashes--
	r.unnote(token)
	r.remember(token, KindNotCounted)
	if r.State == StateHeld && r.Cause == CauseCrashed {
		r.State = StateLive
	}
	if r.Counted() == 0 && r.State != StateDeadLetter { // its age begins anew
		r.FirstTime, r.LastTime, r.Cause, r.Reason = time.Time{}, time.Time{}, "", ""
	}
}

// Moved records that the broker has confirmed the copy with a number.
func Moved(r *Record, q *Queue, copyNumber int64, now time.Time) (Reply, time.Duration) {
	now = now.Truncate(time.Millisecond)
	if r.Move.Top == 0 {
		return r.reply(ReplyNone, 0, now), 0
	}
	if copyNumber <= r.Move.CopyNumber {
		return r.reply(ReplyMoved, 0, now), 0
	}
	r.Move.confirm(copyNumber)
	return r.reply(ReplyMoved, 0, now), r.save(r.Consumer, q.TTL, now)
}
