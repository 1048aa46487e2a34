package rules

import "time"

// byOperator replies to a step that changed the record.
func byOperator(r *Record, q *Queue, v ReplyCode, now time.Time) (Reply, time.Duration) {
	return r.reply(v, 0, now), r.save(r.Consumer, q.TTL, now)
}

// Limit gives a message a limit of its own, in counted attempts; 0 takes it back.
func Limit(r *Record, q *Queue, attempts int, now time.Time) (Reply, time.Duration) {
	now = now.Truncate(time.Millisecond)
	switch {
	case r.TTL == 0:
		return r.reply(ReplyNone, 0, now), 0
	case r.IsOver():
		return r.reply(ReplyOver, 0, now), 0
	}
	r.State, r.OwnLimit = StateLive, attempts
	return byOperator(r, q, ReplyLimited, now)
}

// Reset clears a record: its counts, history, tombstone, wait, suspicion, open attempt and own limit. A dead letter
// that did not leave its queue is no longer counted as dead, so it cannot be missing.
func Reset(r *Record, q *Queue, n Note, now time.Time) (Reply, time.Duration) {
	n.At = now.Truncate(time.Millisecond)
	if r.TTL == 0 {
		return r.reply(ReplyNone, 0, n.At), 0
	}
	if r.State == StateDeadLetter && r.Removed.IsZero() && q.Tombstones.Count > 0 {
		q.Tombstones.Count--
	}
	r.clear()
	r.Reset = n
	return byOperator(r, q, ReplyReset, n.At)
}

// Skip has a message dead-lettered at its next step. The note of the first skip stays.
func Skip(r *Record, q *Queue, n Note, now time.Time) (Reply, time.Duration) {
	n.At = now.Truncate(time.Millisecond)
	switch {
	case r.TTL == 0:
		return r.reply(ReplyNone, 0, n.At), 0
	case r.State == StateSkip:
		return byOperator(r, q, ReplySkipped, n.At)
	case r.IsOver():
		return r.reply(ReplyOver, 0, n.At), 0
	}
	r.State, r.Binds, r.Skipped = StateSkip, time.Time{}, n
	r.Reset, r.Removed = Note{}, time.Time{} // a skip is the only note
	return byOperator(r, q, ReplySkipped, n.At)
}

// Remove notes that the dead letter of a message left its dead-letter queue. The record is kept as long as before.
func Remove(r *Record, q *Queue, now time.Time) (Reply, time.Duration) {
	now = now.Truncate(time.Millisecond)
	if r.TTL == 0 || r.State != StateDeadLetter || !r.Removed.IsZero() {
		return r.reply(ReplyNone, 0, now), 0
	}
	if r.Removed = now; q.Tombstones.Count > 0 { // else it would hide as many that are lost later
		q.Tombstones.Removed++
	}
	return r.reply(ReplyRemoved, 0, now), r.save(r.Consumer, r.TTL, now)
}
