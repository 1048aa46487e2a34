package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Times of a breaker.
const (
	DoubtLasts    = 2 * time.Second  // until a queue in doubt opens its breaker
	FirstPermit   = time.Second      // from the opening to the first permit
	SecondPermit  = 2 * time.Second  // from the first permit to the second
	LaterPermits  = 3 * time.Second  // between the permits after that
	Probes        = 3                // attempts for each permit
	SuccessAwaits = 30 * time.Second // the longest wait of a last attempt for a success elsewhere
	SuccessPoll   = time.Second      // until a message that waits for a success asks again
	LongestCount  = 24 * time.Hour   // for which an operator has every failure counted
)

// MaxBreaker is the largest Progress.Breaker.
const MaxBreaker = 100

// Progress is the report of a process with a breaker, in each step and once a second. Its times are by the store's
// clock, but ages are sent.
type Progress struct {
	Breaker  int           // after so many failed messages, with no success since, the queue is in doubt; 0: no breaker
	Patience time.Duration // for so long a last attempt does not count without a success elsewhere; 0: it counts
	Began    time.Time     // the latest begin of a success in the process; zero: none, or reported before
	Ended    time.Time     // the same for its end
	Attempt  time.Time     // of Fail: when the attempt began
	Failing  bool          // Breaker messages failed in this process since its last success
	Wants    bool          // of AskBreaker: the process has a message to run, if there is a permit
}

// Breaker is the breaker of a queue in the store. It is closed, in doubt, or open.
type Breaker struct {
	Streak  []StreakFailure // one failure of each message; a success that began after it removes it
	Doubt   time.Time       // since when the queue is in doubt; zero: it is not
	Open    time.Time       // since when no attempt begins without a permit; zero: it is closed
	Closed  time.Time       // when it was last closed
	Next    time.Time       // if open: when the next permit may be given
	Permits int             // given since the opening; 1 if closed: by an operator, and no success has followed
	Count   time.Time       // until when an operator wants every failure counted
	Success time.Time       // the latest known begin of a success; it alone is written only if awaited, or with Patience
	Awaited time.Time       // until when a message waits for a Success
	Reason  string          // of the last message of the streak: the first line, cut to 120 bytes
	Alike   int             // how many of the streak, up to the last, have this reason apart from numbers
}

// StreakFailure is the failure of one message of a streak: its first one, or, with Patience, that of a last allowed
// attempt that is not counted. After Resume any failure may be the first one of a streak.
type StreakFailure struct {
	At      time.Time
	Message string // the first 16 digits of the hash of its id
}

// Learn notes the successes of a process, and the time that has passed. It reports whether the breaker is to be
// written.
func (b *Breaker) Learn(p Progress, now time.Time) (changed bool) {
	changed = b.bound(now)
	if p.Began.After(b.Success) {
		b.Success = p.Began
		changed = changed || b.Awaited.After(now) || p.Patience > 0
	}
	if b.resumed() && b.Success.After(b.Closed) {
		b.Permits, changed = 0, true
	}
	switch {
	case !b.Open.IsZero():
		if b.Success.After(b.Open) {
			b.close(now)
			return true
		}
		return changed
	case !b.Doubt.IsZero() && p.Ended.After(b.Doubt):
		b.Streak, b.Doubt, b.Permits = nil, time.Time{}, 0
		return true
	}
	failed := len(b.Streak)
	b.Streak = slices.DeleteFunc(b.Streak, func(f StreakFailure) bool { return b.Success.After(f.At) })
	switch {
	case len(b.Streak) < failed:
		b.Doubt, changed = time.Time{}, true
	case !b.Doubt.IsZero() && now.Sub(b.Doubt) >= DoubtLasts:
		b.Open, b.Next, b.Permits, changed = now, now.Add(FirstPermit), 0, true
	}
	return changed
}

// Answer learns of a process, and gives it a permit that it wants. It reports whether the breaker is to be written.
func (b *Breaker) Answer(p Progress, now time.Time) (permitted, changed bool) {
	changed = b.Learn(p.At(now), now)
	if p.Failing && !b.Awaited.After(now.Add(SuccessPoll)) { // other processes shall write their next success
		b.Awaited, changed = now.Add(3*SuccessPoll), true
	}
	permitted = p.Wants && b.Permit(now)
	return permitted, changed || permitted
}

// Stops reports whether no message succeeds, so that failures are not counted: the queue is in doubt, or its breaker is
// open.
func (b Breaker) Stops() bool { return !b.Doubt.IsZero() || !b.Open.IsZero() }

// resumed reports whether an operator closed the breaker, and no success is known that began since. The outage may go
// on, and the messages that wait have failed before. So the first failure, whichever it is, begins a doubt.
func (b Breaker) resumed() bool { return b.Open.IsZero() && b.Permits > 0 }

// Permit gives a permit for Probes attempts, and reports whether it did.
func (b *Breaker) Permit(now time.Time) bool {
	if b.Open.IsZero() || now.Before(b.Next) {
		return false
	}
	b.Permits++
	b.Next = now.Add(LaterPermits)
	if b.Permits == 1 {
		b.Next = now.Add(SecondPermit)
	}
	return true
}

// Resume closes the breaker for an operator. Every failure counts from now on for the time count, 24 h at most. That
// includes the failure of a last attempt, which Patience does not count while the breaker is closed. A count of zero
// ends a time that an earlier Resume began, and the next failure without a success begins a doubt. With that count
// Resume reports false if it did nothing: the breaker is closed, the queue is not in doubt, and no such time lasts.
func (b *Breaker) Resume(count time.Duration, now time.Time) bool {
	now = now.Truncate(time.Millisecond)
	b.bound(now)
	stops := b.Stops()
	if !stops && count == 0 && !b.Count.After(now) {
		return false
	}
	if stops {
		b.close(now)
	}
	b.Permits = Flag(stops && count == 0)
	if b.Count = (time.Time{}); count > 0 {
		b.Count = now.Add(whole(min(count, LongestCount)))
	}
	return true
}

func (b *Breaker) close(now time.Time) {
	b.Streak, b.Doubt, b.Open, b.Closed, b.Next, b.Permits = nil, time.Time{}, time.Time{}, now, time.Time{}, 0
}

// bound moves times that are in the future, because the clock was set back, to now. It reports whether a doubt, an
// opening, a wait for a permit or a count would have lasted longer, or attempts have seemed to begin before the
// closing.
func (b *Breaker) bound(now time.Time) (moved bool) {
	b.Streak = slices.Clone(b.Streak)
	for i := range b.Streak {
		setBack(now, &b.Streak[i].At)
	}
	setBack(now, &b.Success)
	moved = setBack(now, &b.Doubt, &b.Open, &b.Closed)
	moved = setBack(now.Add(LaterPermits), &b.Next) || moved
	return setBack(now.Add(LongestCount), &b.Count) || moved
}

// Lengthen adds a message to the streak, unless it is there. It reports whether it did. Once the streak has size
// messages, the queue is in doubt.
func (b *Breaker) Lengthen(message, reason string, size int, now time.Time) bool {
	id := sha256.Sum256([]byte(message))
	failed := StreakFailure{At: now, Message: hex.EncodeToString(id[:8])}
	if slices.ContainsFunc(b.Streak, func(f StreakFailure) bool { return f.Message == failed.Message }) {
		return false
	}
	reason = firstLine(reason)
	if len(b.Streak) == 0 || numbers.ReplaceAllString(b.Reason, "0") != numbers.ReplaceAllString(reason, "0") {
		b.Alike = 0
	}
	b.Alike, b.Reason = min(b.Alike, len(b.Streak))+1, reason
	if b.Streak = append(b.Streak, failed); len(b.Streak) >= size || b.resumed() {
		b.Doubt = now
	}
	return true
}

// numbers are ignored when two reasons are compared.
var numbers = regexp.MustCompile(`[0-9]+`)

// breaker is a copy of the queue's breaker that has learned of the attempt's process. If the clock was set back behind
// the message's last failure, that seems to be now, so that no wait for a success grows.
func (s *step) breaker() (b Breaker, changed bool) {
	if ahead := s.LastTime.Sub(s.now); ahead > 0 {
		s.FirstTime, s.LastTime, s.History = s.FirstTime.Add(-ahead), s.now, slices.Clone(s.History)
		for i := range s.History {
			s.History[i].At = s.History[i].At.Add(-ahead)
		}
	}
	b, s.queue.Judged = s.queue.Breaker, true
	changed = b.Learn(s.a.Progress, s.now)
	return b, changed
}

// impatient reports whether an outage may use up the last allowed attempt of the message: no success is known that
// began after its last failure.
func (s *step) impatient(b Breaker) bool {
	p := s.a.Progress
	return p.Breaker > 0 && p.Patience > 0 && s.Counted() > 0 && s.Counted()+1 >= s.inForce() &&
		!b.Success.After(s.LastTime) && s.now.Sub(s.FirstTime) < whole(p.Patience) && !b.Count.After(s.now)
}

// awaitsSuccess reports whether the last allowed attempt has to wait for a success of another message, and the wait
// until it asks again.
func (s *step) awaitsSuccess() bool {
	if s.a.Progress.Breaker == 0 {
		return false
	}
	b, _ := s.breaker()
	since := slices.MaxFunc([]time.Time{s.LastTime, s.Due}, time.Time.Compare)
	left := since.Add(SuccessAwaits).Sub(s.now)
	if !s.impatient(b) || left <= 0 {
		return false
	}
	s.rest = min(SuccessPoll, left)
	b.Awaited = s.now.Add(2 * SuccessPoll)
	s.queue.Breaker = b
	return true
}

// EncodeBreaker writes a breaker as the scripts do.
func EncodeBreaker(b Breaker) string {
	streak := "."
	for _, f := range b.Streak {
		streak += fmt.Sprintf(";%d=%s", Millis(f.At), f.Message)
	}
	return fmt.Sprintf("%d %d %d %d %d %d %d %d %d %s\n%s", Millis(b.Success), Millis(b.Doubt), Millis(b.Open),
		Millis(b.Closed), Millis(b.Next), b.Permits, Millis(b.Count), Millis(b.Awaited), b.Alike, streak, b.Reason)
}

// DecodeBreaker reads the text of EncodeBreaker; false: it is none.
func DecodeBreaker(text string) (b Breaker, ok bool) {
	line, reason, ends := strings.Cut(text, "\n")
	w := strings.Split(line, " ")
	if !ends || len(w) != 10 || !strings.HasPrefix(w[9], ".") || slices.ContainsFunc(w[:9], func(word string) bool {
		return !isDecimal(word)
	}) {
		return Breaker{}, false
	}
	b = Breaker{Success: millis(w[0]), Doubt: millis(w[1]), Open: millis(w[2]), Closed: millis(w[3]), Next: millis(w[4]),
		Permits: int(number(w[5])), Count: millis(w[6]), Awaited: millis(w[7]), Alike: int(number(w[8])), Reason: reason}
	for entry := range strings.SplitSeq(w[9], ";") {
		if at, message, is := strings.Cut(entry, "="); is {
			b.Streak = append(b.Streak, StreakFailure{At: millis(at), Message: message})
		}
	}
	return b, true
}

// Arg returns the argument of a step that is sent now; empty: the process has no breaker. Ages are rounded up, so that
// no success seems later than it was.
func (p Progress) Arg(now time.Time) string {
	if p.Breaker == 0 {
		return ""
	}
	age := func(at time.Time) int64 {
		if at.IsZero() {
			return -1
		}
		return CeilMillis(now.Sub(at))
	}
	return fmt.Sprintf("progress %d %d %d %d %d %d", p.Breaker, CeilMillis(p.Patience), age(p.Began), age(p.Ended),
		age(p.Attempt), Flag(p.Failing))
}

// At returns the progress by the store's clock, which is now.
func (p Progress) At(now time.Time) Progress {
	now = now.Truncate(time.Millisecond)
	for _, at := range []*time.Time{&p.Began, &p.Ended, &p.Attempt} {
		if !at.IsZero() {
			*at = now.Add(-whole(time.Since(*at)))
		}
	}
	if p.Attempt.IsZero() {
		p.Attempt = now
	}
	return p
}
