package rules

import (
	"cmp"
	"math"
	"time"
)

// How long a success and a tombstone are kept in force, for a lost ack or nack.
const (
	KeepDone       = 10 * time.Minute
	TombstoneBinds = 10 * time.Minute
)

// step has the state that Start and Fail share: the record, the queue, the delivery, and how these relate.
type step struct {
	*Record
	queue *Queue
	a     Attempt
	now   time.Time // in whole milliseconds

	given int // the consumer's limit; 0: none
	base  int // the limit in force, before the message's own

	carried    bool          // the attempt has a Delay
	above      time.Duration // a longer wait moves the message
	superseded bool          // a newer copy takes the place of the delivery

	changed bool          // something of a move changed
	double  bool          // the step is the first sign of a second message with this id
	rest    time.Duration // how long to wait, in place of the time left; zero: the time left
}

// arrive begins a step: it compares the delivery with the record.
func arrive(r *Record, q *Queue, a Attempt, limit int, now time.Time) *step {
	s := &step{Record: r, queue: q, a: a, now: now.Truncate(time.Millisecond), given: min(limit, MaxLimit)}
	s.base = s.given
	if set := q.Override.Limit(); set > 0 && limit > 0 {
		s.base = set
	}
	s.compareCopies()
	return s
}

// inForce is the limit of the step in counted attempts; 0: it was given none.
func (s *step) inForce() int {
	if s.given == 0 {
		return 0
	}
	return cmp.Or(s.OwnLimit, s.base)
}

// spent reports whether the message has no attempts left.
func (s *step) spent() bool { return s.Counted() >= s.inForce() }

// old reports whether the last counted attempt was later after the first than the MaxAge in force.
func (s *step) old() bool {
	oldest := whole(s.a.MaxAge)
	if o := s.queue.Override; o != nil && o.MaxAge != nil {
		oldest = *o.MaxAge
	}
	if oldest > 0 && s.a.Progress.Breaker > 0 { // an outage makes no message too old
		b, _ := s.breaker()
		oldest += max(b.Closed.Sub(s.FirstTime), 0)
	}
	return s.tooOld(oldest)
}

// earlier reports whether the tombstone or the success belongs to an earlier use of the id, because it was written
// before the delivery arrived.
func (s *step) earlier() bool {
	return s.a.First && !s.Binds.Add(-TombstoneBinds).After(s.a.Received)
}

// renew clears the record for a new use of the id.
func (s *step) renew() {
	s.clear()
	s.superseded, s.double = false, false
	if s.Move.Top > 0 {
		s.Move.Body = mixed
	}
}

// hold has the message hold its queue.
func (s *step) hold(cause Cause) ReplyCode {
	s.State, s.Cause = StateHeld, cause
	return ReplyHeld
}

// exhaust writes the tombstone.
func (s *step) exhaust() ReplyCode {
	if s.State == StateSkip {
		s.count(CauseSkipped, s.Skipped.Why, s.now)
	}
	s.State, s.Binds, s.Removed = StateDeadLetter, s.now.Add(TombstoneBinds), time.Time{}
	if s.given > 0 {
		s.Limit = s.base
	} else if set := s.queue.Override.Limit(); set > 0 {
		s.Limit = set
	}
	if s.queue.Tombstones.Count++; s.queue.Tombstones.Count == 1 {
		s.queue.Tombstones.Since = s.now
	}
	return ReplyExhausted
}

// end replies, and says how long the record is kept if it is to be saved or if something of a move changed.
func (s *step) end(v ReplyCode, saves bool, consumer string) (Reply, time.Duration) {
	reply := s.reply(v, s.inForce(), s.now)
	reply.PossibleDuplicate = s.double
	if s.rest > 0 {
		reply.Wait = s.rest
	}
	if v == ReplyMove {
		reply.CopyNumber = s.Move.Top
	}
	if !saves && !s.changed {
		return reply, 0
	}
	if s.given > 0 && s.State != StateDeadLetter {
		s.Limit = s.given
	}
	keep := s.queue.TTL
	switch {
	case v == ReplyHeld:
		keep = max(keep, PauseTTL)
	case v == ReplyUncounted && s.TTL == 0:
		keep = KeepDone
	}
	return reply, s.save(consumer, keep, s.now)
}

// reply is the reply of a step with a reply and a limit in force.
func (r *Record) reply(v ReplyCode, limit int, now time.Time) Reply {
	reply := Reply{Code: v, Failures: r.Failures, Crashes: r.Crashes, Limit: limit, Fence: r.Fence, Wait: r.Left(now)}
	if v == ReplyHeld || v == ReplyExhausted {
		reply.Cause, reply.Reason = r.Cause, r.Reason
	}
	return reply
}

// save bounds the record, and returns how long it is kept.
func (r *Record) save(consumer string, keep time.Duration, now time.Time) time.Duration {
	r.bound(now)
	r.number()
	r.Consumer = consumer
	return keep
}

// Durations of a move.
const (
	MoveLease = 30 * time.Second // that a consumer has for a move
	MovePoll  = 10 * time.Second // until a delivery asks again whether another attempt at its message still runs
)

// mixed is Move.Body if different messages have the same id.
const mixed = "x"

// compareCopies compares the delivery with the copies of its message that the record knows.
func (s *step) compareCopies() {
	l := s.a.Delay
	if s.carried = l != (Delay{}); !s.carried {
		if s.Move.Top > 0 { // this consumer's copy is not known
			s.Move.Body, s.changed = mixed, true
		}
		return
	}
	if s.above = whole(l.Above); s.above == 0 {
		s.above = math.MaxInt64
	}
	if s.Move.Top > 0 && s.Move.Body != l.Body && s.Move.Body != mixed { // from now on no delivery counts as superseded
		s.double = !s.PossibleDuplicate
		s.Move.Body, s.PossibleDuplicate, s.FirstFailed, s.changed = mixed, true, true, true
	}
	if l.CopyNumber > s.Move.CopyNumber { // it is the copy, which therefore exists
		if s.Move.Top == 0 {
			s.Move.Body = l.Body
		}
		s.Move.confirm(l.CopyNumber)
		s.changed = true
	}
	s.superseded = s.Move.Body == l.Body && (l.CopyNumber < s.Move.CopyNumber || l.CopyNumber > 0 && s.State == StateDone)
}

// confirm notes that the copy with a number exists.
func (m *Move) confirm(copyNumber int64) {
	m.CopyNumber = copyNumber
	if copyNumber >= m.Top {
		m.Top, m.Until, m.Mover = copyNumber, time.Time{}, ""
	}
}

// move asks the consumer to move the message, which has to wait for long: always if begins is true, else only if a
// move is under way. Otherwise the reply is v.
func (s *step) move(v ReplyCode, begins bool) ReplyCode {
	m := &s.Move
	underway := !m.Until.IsZero()
	switch {
	case underway && m.Until.After(s.now) && m.Mover != s.a.Token:
		s.changed = setBack(s.now.Add(MoveLease), &m.Until) || s.changed
		s.rest = m.Until.Sub(s.now)
		return v
	case !underway && !begins:
		return v
	case !underway:
		m.Top++
	}
	if m.Body == "" {
		m.Body = s.a.Delay.Body
	}
	m.Until, m.Mover, s.changed = s.now.Add(MoveLease), s.a.Token, true
	return ReplyMove
}

// stay ends a move that has become too late.
func (s *step) stay() {
	if !s.Move.Until.IsZero() {
		s.Move.Until, s.Move.Mover, s.changed = time.Time{}, "", true
	}
}

// runs returns for how long an attempt at another copy may still run; zero: none does.
func (s *step) runs() time.Duration {
	if s.a.Delay.CopyNumber == 0 || s.OpenToken == "" {
		return 0
	}
	since := s.OpenSince
	if since.After(s.now) {
		since = s.now
	}
	return max(since.Add(whole(s.a.Delay.Lease)).Sub(s.now), 0)
}
