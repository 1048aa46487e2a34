package rules

import (
	"cmp"
	"slices"
	"time"
)

// Bounds of the known attempts of a record.
const (
	MaxEnded  = 16        // attempts that are not counted
	MaxTokens = 14 * 1024 // bytes of all tokens, with three for the kind of each
)

// State of a record.
type State string

// The states of a record.
const (
	StateLive       State = ""          // its message gets another attempt
	StateDeadLetter State = "exhausted" // dead-lettered, or about to be: the record is a tombstone
	StateSkip       State = "skip"      // an operator skipped it: it is dead-lettered at its next step
	StateHeld       State = "held"      // exhausted, but it stays at the head of its queue until an operator decides
	StateDone       State = "done"      // handled; kept for ten minutes, for a lost ack
)

// Record is the store's record of one generation of a message. Its strings come from messages and handlers: they may
// hold control characters, so do not print them on a terminal unescaped.
type Record struct {
	Message

	State    State
	Failures int    // attempts that Fail counted, also those with CauseCrashed
	Crashes  int    // attempts that Start counted, because their consumer died
	Tokens   Tokens // of the known attempts

	OpenToken string        // of the open attempt; empty if there is none
	OpenMode  Mode          // of the open attempt: ModeShared, ModeReserved or ModeIsolated
	OpenSince time.Time     // when the open attempt, or the last one before, began
	Suspect   bool          // an attempt was found open: the message may have killed a process
	Starts    int64         // attempts that Start let run
	Fence     int64         // of the last attempt that Start let run; 0: none
	Due       time.Time     // when the next attempt may begin; zero if immediately. See Left
	Wait      time.Duration // that the last failure asked for

	// Binds is, of StateDeadLetter, until when the tombstone is in force; of StateDone, ten minutes after. Of
	// StateLive it is zero, unless the message was handled and no attempt was counted since.
	Binds time.Time

	FirstTime time.Time // of the first counted attempt
	LastTime  time.Time // of the last counted attempt, or when a skip dead-lettered the message
	Cause     Cause     // of the last counted attempt, or CauseSkipped
	Reason    string    // of the last counted attempt or the skip, for people

	// Limit is that of the last step's consumer, before override and OwnLimit; of StateDeadLetter, the one in force
	// then, before OwnLimit. 0: not known.
	Limit int

	OwnLimit int           // attempts that an operator gave this message, in place of every other limit; 0: none
	Reset    Note          // of the last reset; zero if there was none
	Skipped  Note          // of the skip that is in force or dead-lettered the message; zero if there is none
	Removed  time.Time     // StateDeadLetter: when the dead letter was replayed or dropped; zero if not known
	Consumer string        // the process that wrote last; of a shared attempt that is open: its own
	History  []AttemptNote // the last 16 counted attempts of this generation since the last reset, the oldest first

	// PossibleDuplicate reports signs of a second message with this id: the first attempt at a delivery that is not
	// redelivered failed, and the generation had such a failure or a counted attempt before. Both messages share the
	// counts.
	PossibleDuplicate bool

	Move Move // zero if the message was never moved

	// FirstFailed reports that the first attempt at a delivery that is not redelivered has failed.
	FirstFailed bool

	Listed time.Time     // when the store last moved the record in a list of its queue; zero: it is in none
	TTL    time.Duration // until the record expires; zero: the message has no record
}

// Move is the state of a message that was moved to a delay queue.
type Move struct {
	CopyNumber int64     // the highest number of a confirmed copy
	Top        int64     // the highest number that a copy was given
	Until      time.Time // until when the Mover may publish the copy Top; zero: no move is under way
	Mover      string    // the token of the attempt whose message is being moved
	Body       string    // the fingerprint of the message; x if different messages have its id
}

// Kind is the end of an attempt.
type Kind byte

// The kinds of attempts.
const (
	KindFailed     Kind = 'f' // counted as a failure
	KindCrashed    Kind = 'c' // counted as a crash
	KindNotCounted Kind = 'e' // ended and not counted
)

// Tokens are the known attempts of a message, the oldest first.
type Tokens []Token

// Token is one known attempt, and its end.
type Token struct {
	Name string
	Kind Kind
}

// Of returns the end of an attempt; zero: the attempt is not known, or still open.
func (t Tokens) Of(name string) Kind {
	for i := range t {
		if t[i].Name == name {
			return t[i].Kind
		}
	}
	return 0
}

// Counted is the number of counted attempts, which the limit bounds.
func (r Record) Counted() int { return r.Failures + r.Crashes }

// IsOver reports whether the generation gets no more attempts.
func (r Record) IsOver() bool { return r.State != StateLive && r.State != StateHeld }

// Since is when the message began to block: its first counted attempt, or the start of the open one if none was
// counted.
func (r Record) Since() time.Time {
	if r.FirstTime.IsZero() {
		return r.OpenSince
	}
	return r.FirstTime
}

// InForce is the limit, in counted attempts, that the message's next step will find: its own, else that of the queue's
// override (nil if there is none), else the consumer's. For a StateDeadLetter it is the limit at which it was
// exhausted. It is 0, not known, if no consumer with a limit has taken a step.
func (r Record) InForce(override *Override) int {
	limit := r.Limit
	if set := override.Limit(); set > 0 && r.State != StateDeadLetter {
		limit = set
	}
	return cmp.Or(r.OwnLimit, limit)
}

// TooOld reports whether the time between the first and the last counted attempt exceeds the MaxAge of an override. If
// so, the next step dead-letters the message. TooOld ignores the MaxAge of the consumers, which the store does not
// know. override may be nil.
func (r Record) TooOld(override *Override) bool {
	return override != nil && override.MaxAge != nil && r.tooOld(*override.MaxAge)
}

func (r Record) tooOld(maxAge time.Duration) bool {
	return maxAge > 0 && r.Counted() > 0 && r.OwnLimit == 0 && r.LastTime.Sub(r.FirstTime) > maxAge
}

// Left is how long the next attempt must wait; now is by the store's clock. It is the time until Due, but at most
// Wait, because that clock may have been set back.
func (r Record) Left(now time.Time) time.Duration { return min(max(r.Due.Sub(now), 0), r.Wait) }

// remember notes the end of an attempt.
func (r *Record) remember(token string, as Kind) {
	for i := range r.Tokens {
		if r.Tokens[i].Name == token {
			r.Tokens[i].Kind = as
			return
		}
	}
	r.Tokens = append(r.Tokens, Token{token, as})
}

// close closes the open attempt.
func (r *Record) close() { r.OpenToken, r.OpenMode = "", ModeShared }

// clear empties the record, except for its consumer, fence, starts, limit and known attempts, which count no more. So
// their late steps count nothing.
func (r *Record) clear() {
	for i := range r.Tokens {
		r.Tokens[i].Kind = KindNotCounted
	}
	*r = Record{
		Message: r.Message, Tokens: r.Tokens, OpenSince: r.OpenSince, Starts: r.Starts, Fence: r.Fence, Limit: r.Limit,
		Consumer: r.Consumer,
		Move:     r.Move, TTL: r.TTL,
	}
}

// count keeps the cause and the time of an attempt that counts, or of a skip.
func (r *Record) count(cause Cause, reason string, now time.Time) {
	if r.FirstTime.IsZero() {
		r.FirstTime = now
	}
	r.LastTime, r.Cause, r.Reason = now, cause, reason
	if now.Before(r.FirstTime) { // the clock was set back
		r.LastTime = r.FirstTime
	}
}

// bound forgets the oldest attempts beyond the bounds of a record. If the clock was set back it moves Due, so that the
// wait does not grow.
func (r *Record) bound(now time.Time) {
	if due := now.Add(r.Wait); r.Due.After(due) {
		r.Due = due
	}
	surplus, size := -MaxEnded, 1
	for _, t := range r.Tokens {
		if t.Kind == KindNotCounted {
			surplus++
		}
	}
	r.Tokens = slices.DeleteFunc(r.Tokens, func(t Token) bool {
		forgotten := surplus > 0 && t.Kind == KindNotCounted
		if forgotten {
			surplus--
		} else {
			size += t.size()
		}
		return forgotten
	})
	for ; size > MaxTokens; r.Tokens = r.Tokens[1:] {
		size -= r.Tokens[0].size()
	}
}

// size is the size of a token in a record, in bytes, with its kind.
func (t Token) size() int { return len(t.Name) + 3 }
