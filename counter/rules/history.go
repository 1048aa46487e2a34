package rules

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxHistory is how many counted attempts a history has.
const MaxHistory = 16

// maxNoteLine bounds the consumer and the reason in a history, in bytes.
const maxNoteLine = 120

// AttemptNote is the note of a record about one counted attempt. Do not print its strings on a terminal unescaped.
type AttemptNote struct {
	Number   int           // of the attempt in its generation, from 1
	At       time.Time     // when it was counted; of a crash that Start counts: when that Start found it
	Ran      time.Duration // how long its handler ran; 0 of a crash: not known
	Cause    Cause
	Consumer string // its process; cut to 120 bytes
	Reason   string // the first line; cut to 120 bytes
	Token    string // of a crash: its attempt; else empty
}

// firstLine returns the first line of a reason that is not empty: its first maxNoteLine bytes.
func firstLine(reason string) string {
	line, _, _ := strings.Cut(strings.TrimLeft(strings.ReplaceAll(reason, "\r", "\n"), "\n"), "\n")
	return line[:min(len(line), maxNoteLine)]
}

// noteLine returns firstLine with blanks for tabs. If the line has maxNoteLine bytes, a last character that is not
// ASCII is dropped, because the cut may have split it.
func noteLine(reason string) string {
	line := strings.ReplaceAll(firstLine(reason), "\t", " ")
	end := len(line)
	for end > 0 && !utf8.RuneStart(line[end-1]) {
		end--
	}
	if len(line) == maxNoteLine && end > 0 && line[end-1] >= utf8.RuneSelf {
		line = line[:end-1]
	}
	return line
}

// noteConsumer is a consumer as a history keeps it.
func noteConsumer(consumer string) string {
	line := strings.NewReplacer("\r", " ", "\n", " ", "\t", " ").Replace(consumer)
	return line[:min(len(line), maxNoteLine)]
}

// note adds a counted attempt to the history.
func (r *Record) note(n AttemptNote, now time.Time) {
	n.At, n.Cause, n.Consumer, n.Reason = r.FirstTime, r.Cause, noteConsumer(n.Consumer), noteLine(r.Reason)
	if now.After(r.FirstTime) {
		n.At = now
	}
	r.History = append(r.History, n)
	r.History = r.History[max(len(r.History)-MaxHistory, 0):]
}

// unnote removes a crash that was reversed.
func (r *Record) unnote(token string) {
	r.History = slices.DeleteFunc(r.History, func(n AttemptNote) bool {
		return n.Token == token && n.Cause == CauseCrashed
	})
}

// number numbers the attempts of the history.
func (r *Record) number() {
	for i := range r.History {
		r.History[i].Number = r.Counted() - (len(r.History) - 1 - i)
	}
}
