package counter

import (
	"strconv"
	"strings"
	"time"
)

// State of a record.
type State string

// What a message is, by its record.
const (
	StateLive       State = ""          // its message is to be tried again
	StateDeadLetter State = "exhausted" // dead-lettered, or about to be
	StateDone       State = "done"      // handled; kept for ten minutes, for an ack that is lost
	StateForeign    State = "foreign"   // no record: somebody else wrote to its key, and every step of the message fails
)

// Record is what the store keeps of one life of a message. Its strings come from messages and handlers: they may hold
// control characters and must not reach a terminal as they are.
type Record struct {
	Message

	State    State
	Failures int
	Crashes  int
	Tokens   map[string]Kind // attempts that are known, by token

	OpenToken string    // token of the attempt that runs now, if any
	OpenMode  Mode      // of that attempt: Shared or Exclusive
	OpenSince time.Time // when that attempt, or the last one that was marked, began
	Suspect   bool      // an attempt was found open
	Starts    int64
	Fence     int64         // of the last attempt that Start let run; 0: none
	Due       time.Time     // when the next attempt may begin; zero if immediately. See Left
	Wait      time.Duration // that the last failure asked for
	Binds     time.Time     // DeadLetter: until when it is repeated without the handler; Done: ten minutes after; Live: zero, unless it was handled and no attempt was counted since
	FirstTime time.Time     // of the first charge
	LastTime  time.Time     // of the last charge
	Cause     Cause         // of the last failed attempt that was counted
	Reason    string        // of the same, for people
	Limit     int           // charges that the consumer of the last step allows, before override and grant; DeadLetter: that were in force, before the grant; 0: not known
	Granted   Grant         // tries an operator gave beyond the limit; zero if none did
	Reset     Note          // who made the record clean last; zero if nobody did
	Removed   time.Time     // DeadLetter: when its dead letter was replayed or dropped; zero if that is not known
	Holder    string        // the process that wrote last
	TTL       time.Duration // what is left of the record's life
	Key       string        // Foreign: where it is; nothing else is known of it but the TTL, VHost and Queue
}

// Kind says what an attempt came to.
type Kind byte

// What became of an attempt.
const (
	KindFailed     Kind = 'f' // charged as a failure
	KindCrashed    Kind = 'c' // charged as a crash
	KindNotCounted Kind = 'e' // ended without a charge
)

// Charges is what is held against the limit.
func (r Record) Counted() int { return r.Failures + r.Crashes }

// InForce is the number of charges at which the message is dead-lettered, as its next step will find: those of the queue's
// override, nil if there is none, else the consumer's own, and the tries granted. Of a DeadLetter it is the limit at which it
// died. It is 0, not known, if no consumer with a limit has taken a step.
func (r Record) InForce(override *Override) int {
	switch {
	case override != nil && r.State != StateDeadLetter:
		return min(override.Limit()+r.Granted.Attempts, maxLimit)
	case r.Limit > 0:
		return min(r.Limit+r.Granted.Attempts, maxLimit)
	}
	return 0
}

// Left returns how long the next attempt has to wait; now is by the store's clock. It is the time until Due, but at most Wait,
// because that clock may have been set back.
func (r Record) Left(now time.Time) time.Duration { return min(max(r.Due.Sub(now), 0), r.Wait) }

// words is how many a record's first line has.
const words = 23

// parseRecord reads a record; scripts/record.lua describes it. What it cannot read is Foreign.
func parseRecord(m Message, text string, ttl time.Duration) Record {
	unreadable := Record{Message: m, State: StateForeign, TTL: ttl}
	line, rest, _ := strings.Cut(text, "\n")
	w := strings.Split(line, " ")
	if len(w) != words {
		return unreadable
	}
	parts, reason, ok := take(rest, w[19:])
	if !ok {
		return unreadable
	}
	m.ID, m.Generation = parts[0], parts[1]
	notes := parseNotes(parts[3])
	r := Record{
		Message: m, Failures: int(number(w[0])), Crashes: int(number(w[1])), Starts: number(w[2]), Fence: number(w[3]), Suspect: w[4] == "1",
		State: State(word(w[5])), Binds: millis(w[6]), Due: millis(w[7]), Wait: time.Duration(min(number(w[8]), maxWaitMillis)) * time.Millisecond,
		FirstTime: millis(w[9]), LastTime: after(w[9], w[10]), Cause: Cause(word(w[11])), OpenToken: word(w[12]), OpenSince: millis(w[14]), Limit: int(number(w[16])),
		Granted: Grant{Attempts: int(number(w[17])), Note: notes["grant"]}, Tokens: parseTokens(w[18]), Holder: parts[2],
		Reset: notes["reset"], Removed: notes["left"].At, Reason: reason, TTL: ttl,
	}
	if w[13] == ModeIsolated.String() {
		r.OpenMode = ModeIsolated
	}
	return r
}

// after is the time so many ms after another, zero if that is.
func after(begin, ms string) time.Time {
	if n := number(begin); n > 0 {
		return time.UnixMilli(n + number(ms)).UTC()
	}
	return time.Time{}
}

// take cuts the beginning of a text into parts of these lengths, and returns what is left; not ok: it is too short for them.
func take(text string, lengths []string) (parts []string, rest string, ok bool) {
	for _, length := range lengths {
		n := number(length)
		if n < 0 || n > int64(len(text)) {
			return nil, "", false
		}
		parts, text = append(parts, text[:n]), text[n:]
	}
	return parts, text, true
}

// word is what stands in a record's first line; empty if it is absent.
func word(s string) string {
	if s == "." {
		return ""
	}
	return s
}

func parseTokens(s string) map[string]Kind {
	out := map[string]Kind{}
	for entry := range strings.SplitSeq(s, ";") {
		if token, kind, ok := strings.Cut(entry, "="); ok && len(kind) == 1 {
			out[token] = Kind(kind[0])
		}
	}
	return out
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func millis(s string) time.Time {
	if n := number(s); n > 0 {
		return time.UnixMilli(n).UTC()
	}
	return time.Time{}
}
