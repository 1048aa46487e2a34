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
	Live       State = ""          // its message is to be tried again
	DeadLetter State = "exhausted" // dead-lettered, or about to be
	Done       State = "done"      // handled; kept for ten minutes, for an ack that is lost
)

// Record is what the store keeps of one life of a message. Its strings come from messages and handlers: they may hold
// control characters and must not reach a terminal as they are.
type Record struct {
	Message

	State    State
	Failures int
	Crashes  int
	Tokens   map[string]Kind // attempts that are known, by token

	Marker    string    // token of the attempt that runs now, if any
	Mode      Mode      // of that attempt: Shared or Exclusive
	Since     time.Time // when that attempt, or the last one that was marked, began
	Suspect   bool      // an attempt was found open
	Starts    int64
	Due       time.Time // when the next attempt may begin; zero if it may at once
	Binds     time.Time // DeadLetter: until when it is repeated without the handler; Done: ten minutes after; else zero
	FirstTime time.Time // of the first charge
	LastTime  time.Time // of the last charge
	LastError string
	Limit     int           // charges that the consumer of the last step allows, before override and grant; 0: not known
	Granted   Grant         // tries an operator gave beyond the limit; zero if none did
	Pardoned  Note          // who made the record clean last; zero if nobody did
	Holder    string        // the process that wrote last
	TTL       time.Duration // what is left of the record's life
}

// Kind says what an attempt came to.
type Kind byte

// What became of an attempt.
const (
	Failed    Kind = 'f' // charged as a failure
	Crashed   Kind = 'c' // charged as a crash
	Uncharged Kind = 'e' // ended without a charge
)

// Charges is what is held against the limit.
func (r Record) Charges() int { return r.Failures + r.Crashes }

// InForce is the number of charges at which the message is dead-lettered, as its next step will find: those of the queue's
// override, nil if there is none, else the consumer's own, and the tries granted. 0: not known, for no consumer with a
// limit has taken a step.
func (r Record) InForce(override *Override) int {
	switch {
	case override != nil:
		return override.Charges() + r.Granted.Tries
	case r.Limit > 0:
		return r.Limit + r.Granted.Tries
	}
	return 0
}

// parseRecord reads the fields of a hash; scripts/record.lua describes them. A field that is absent or unreadable is zero.
func parseRecord(m Message, h map[string]string, ttl time.Duration) Record {
	m.ID, m.Life = h["id"], h["life"]
	r := Record{
		Message: m, State: State(h["state"]), Failures: int(number(h["failures"])), Crashes: int(number(h["crashes"])),
		Tokens: parseTokens(h["tokens"]), Marker: h["marker"], Since: millis(h["since"]), Suspect: h["suspect"] == "1",
		Starts: number(h["starts"]), Due: millis(h["due"]), Binds: millis(h["binds"]), FirstTime: millis(h["first"]),
		LastTime: millis(h["last"]), LastError: h["error"], Holder: h["holder"], TTL: ttl,
		Limit: int(number(h["limit"])), Granted: Grant{Tries: int(number(h["grant"])), Note: parseNote(h, "grant_")},
		Pardoned: parseNote(h, "reset_"),
	}
	if h["mode"] == Exclusive.String() {
		r.Mode = Exclusive
	}
	return r
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
