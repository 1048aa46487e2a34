package counter

import (
	"strconv"
	"strings"
	"time"
)

// State of a record.
type State string

// The states of a record.
const (
	StateLive       State = ""          // its message gets another attempt
	StateDeadLetter State = "exhausted" // dead-lettered, or about to be: the record is a tombstone
	StateSkip       State = "skip"      // an operator skipped it: it is dead-lettered at its next step
	StateDone       State = "done"      // handled; kept for ten minutes, for a lost ack
	StateForeign    State = "foreign"   // no record: another program wrote to its key, and every step of the message fails
)

// Record is what the store keeps of one generation of a message. Its strings come from messages and handlers: they may hold
// control characters, so do not print them on a terminal unescaped.
type Record struct {
	Message

	State    State
	Failures int             // counted attempts whose handler failed
	Crashes  int             // counted attempts whose process died
	Tokens   map[string]Kind // known attempts, by token

	OpenToken string        // of the open attempt; empty if there is none
	OpenMode  Mode          // of the open attempt: ModeShared, ModeReserved or ModeIsolated
	OpenSince time.Time     // when the open attempt, or the last one before, began
	Suspect   bool          // an attempt was found open: the message may have killed a process
	Starts    int64         // attempts that Start let run
	Fence     int64         // of the last attempt that Start let run; 0: none
	Due       time.Time     // when the next attempt may begin; zero if immediately. See Left
	Wait      time.Duration // that the last failure asked for
	Binds     time.Time     // StateDeadLetter: until when the tombstone is in force; StateDone: ten minutes after; StateLive: zero, unless the message was handled and no attempt was counted since
	FirstTime time.Time     // of the first counted attempt
	LastTime  time.Time     // of the last counted attempt, or when a skip dead-lettered the message
	Cause     Cause         // of the last counted attempt, or CauseSkipped
	Reason    string        // of the last counted attempt or the skip, for people
	Limit     int           // of the last step's consumer, before override and grant; StateDeadLetter: the one in force then, before the grant; 0: not known
	Granted   Grant         // attempts that an operator granted beyond the limit; zero if none
	Reset     Note          // of the last reset; zero if there was none
	Skipped   Note          // of the skip that is in force or dead-lettered the message; zero if there is none
	Removed   time.Time     // StateDeadLetter: when the dead letter was replayed or dropped; zero if not known
	Holder    string        // the process that wrote last; of a shared attempt that is open: its own
	History   []AttemptNote // the last 16 counted attempts of this generation since the last reset, the oldest first

	// PossibleDuplicate reports signs of a second message with this id, which share the counts: the first attempt at a delivery
	// that is not redelivered failed, and the generation had such a failure already, or had a counted attempt before it arrived.
	PossibleDuplicate bool

	Move Move // zero if the message was never moved

	TTL time.Duration // until the record expires
	Key string        // StateForeign: its key; nothing else is known except TTL, VHost and Queue
}

// Move is the state of a message that was moved to the later lane.
type Move struct {
	Hop   int64     // the highest number of a confirmed copy
	Top   int64     // the highest number that a copy was given
	Until time.Time // until when the Mover may publish the copy Top; zero: no move is under way
	Mover string    // the token of the attempt whose message is being moved
	Body  string    // the fingerprint of the message; x if different messages have its id
}

// Kind is what became of an attempt.
type Kind byte

// The kinds of attempts.
const (
	KindFailed     Kind = 'f' // counted as a failure
	KindCrashed    Kind = 'c' // counted as a crash
	KindNotCounted Kind = 'e' // ended and not counted
)

// Counted is the number of counted attempts, which the limit bounds.
func (r Record) Counted() int { return r.Failures + r.Crashes }

// Since is when the message began to block: its first counted attempt, or the start of the open one if none was counted.
func (r Record) Since() time.Time {
	if r.FirstTime.IsZero() {
		return r.OpenSince
	}
	return r.FirstTime
}

// InForce is the limit, in counted attempts, that the message's next step will find: that of the queue's override (nil if there
// is none), else the consumer's, plus the granted attempts. For a StateDeadLetter it is the limit at which it was exhausted. It
// is 0, not known, if no consumer with a limit has taken a step.
func (r Record) InForce(override *Override) int {
	limit := r.Limit
	if set := override.Limit(); set > 0 && r.State != StateDeadLetter {
		limit = set
	}
	if limit == 0 {
		return 0
	}
	return min(limit+r.Granted.Attempts, maxLimit)
}

// TooOld reports whether the time between the first and the last counted attempt exceeds the MaxAge of an override. If so, the next
// step dead-letters the message. TooOld ignores the MaxAge of the consumers, which the store does not know. override may be nil.
func (r Record) TooOld(override *Override) bool {
	return override != nil && override.MaxAge != nil && r.tooOld(*override.MaxAge)
}

func (r Record) tooOld(maxAge time.Duration) bool {
	return maxAge > 0 && r.Counted() > 0 && r.Granted.Attempts == 0 && r.LastTime.Sub(r.FirstTime) > maxAge
}

// Left is how long the next attempt must wait; now is by the store's clock. It is the time until Due, but at most Wait, because
// that clock may have been set back.
func (r Record) Left(now time.Time) time.Duration { return min(max(r.Due.Sub(now), 0), r.Wait) }

// recordWords is the number of words in a record's first line. A moved message's has one more.
const recordWords = 25

// parseRecord reads a record, which scripts/record.lua describes. Text that it cannot read has StateForeign.
func parseRecord(m Message, text string, ttl time.Duration) Record {
	unreadable := Record{Message: m, State: StateForeign, TTL: ttl}
	line, rest, ends := strings.Cut(text, "\n")
	w := strings.Split(line, " ")
	if !ends || !isRecord(w) {
		return unreadable
	}
	parts, reason, ok := take(rest, w[20:recordWords])
	if !ok {
		return unreadable
	}
	m.ID, m.Generation = parts[0], parts[1]
	notes := parseNotes(parts[3])
	r := Record{
		Message: m, Failures: int(number(w[0])), Crashes: int(number(w[1])), Starts: number(w[2]), Fence: number(w[3]), Suspect: w[4] == "1",
		State: State(word(w[5])), Binds: millis(w[6]), Due: millis(w[7]), Wait: time.Duration(min(number(w[8]), maxWaitMillis)) * time.Millisecond,
		FirstTime: millis(w[9]), LastTime: after(w[9], w[10]), Cause: Cause(word(w[11])), Reason: reason,
		OpenToken: word(w[12]), OpenSince: millis(w[14]), Limit: int(number(w[16])),
		Granted: Grant{Attempts: int(number(w[17])), Note: notes["grant"]}, Reset: notes["reset"], Skipped: notes["skip"], Removed: notes["removed"].At,
		Tokens: parseTokens(w[19]), Holder: parts[2], TTL: ttl, PossibleDuplicate: w[18] == "2",
		History: parseHistory(parts[4], w[9], reason, int(number(w[0])+number(w[1]))),
	}
	if len(w) > recordWords {
		if r.Move, ok = parseMove(w[recordWords]); !ok {
			return unreadable
		}
	}
	switch w[13] {
	case ModeIsolated.String():
		r.OpenMode = ModeIsolated
	case ModeReserved.String():
		r.OpenMode = ModeReserved
	}
	return r
}

// isRecord reports whether these are the words of a record's first line, as the scripts expect them.
func isRecord(w []string) bool {
	if len(w) != recordWords && len(w) != recordWords+1 {
		return false
	}
	for i, word := range w[:recordWords] {
		switch i {
		case 5, 11, 12, 13, 19: // words and tokens
			if word == "" {
				return false
			}
		default:
			if !isDecimal(word) {
				return false
			}
		}
	}
	return true
}

func parseMove(word string) (Move, bool) {
	w := strings.Split(word, ":")
	if len(w) != 5 || !isDecimal(w[0]) || !isDecimal(w[1]) || !isDecimal(w[2]) || w[3] == "" || w[4] == "" {
		return Move{}, false
	}
	m := Move{Hop: number(w[0]), Top: number(w[1]), Until: millis(w[2]), Body: w[4]}
	if w[3] != "." {
		m.Mover = w[3]
	}
	return m, true
}

// isDecimal reports whether a word is decimal digits.
func isDecimal(word string) bool {
	for i := range len(word) {
		if word[i] < '0' || word[i] > '9' {
			return false
		}
	}
	return word != ""
}

// after is the time ms milliseconds after begin; zero if begin is.
func after(begin, ms string) time.Time {
	if n := number(begin); n > 0 {
		return time.UnixMilli(n + number(ms)).UTC()
	}
	return time.Time{}
}

// take cuts parts of these lengths from the beginning of a text, and returns the rest; not ok: the text is too short.
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

// word is a word of a record's first line; empty if it is absent.
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

// millis reads a time in ms; zero if it is 0 or absent.
func millis(s string) time.Time { return after(s, "0") }
