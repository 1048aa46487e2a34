package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

// recordWords is the number of words in a record's first line. A moved message's has one more.
const recordWords = 25

// Decode reads the text of a record, which scripts/record.lua describes; false: it is none. VHost, Queue and TTL are
// the caller's to set.
func Decode(text string) (Record, bool) {
	line, rest, ends := strings.Cut(text, "\n")
	w := strings.Split(line, " ")
	if !ends || !isRecord(w) {
		return Record{}, false
	}
	parts, reason, ok := take(rest, w[20:recordWords])
	if !ok {
		return Record{}, false
	}
	notes := parseNotes(parts[3])
	r := Record{
		Message: Message{ID: parts[0], Generation: parts[1]}, Failures: int(number(w[0])), Crashes: int(number(w[1])),
		Starts: number(w[2]), Fence: number(w[3]), Suspect: w[4] == "1",
		State: State(word(w[5])), Binds: millis(w[6]), Due: millis(w[7]),
		Wait:      time.Duration(min(number(w[8]), MaxWaitMillis)) * time.Millisecond,
		FirstTime: millis(w[9]), LastTime: after(w[9], w[10]), Cause: Cause(word(w[11])), Reason: reason,
		OpenToken: word(w[12]), OpenSince: millis(w[14]), Listed: millis(w[15]), Limit: int(number(w[16])),
		OwnLimit: int(number(w[17])), Reset: notes["reset"], Skipped: notes["skip"], Removed: notes["removed"].At,
		Tokens: parseTokens(w[19]), Consumer: parts[2], FirstFailed: w[18] != "0", PossibleDuplicate: w[18] == "2",
		History: parseHistory(parts[4], w[9], int(number(w[0])+number(w[1]))),
	}
	if len(w) > recordWords {
		if r.Move, ok = parseMove(w[recordWords]); !ok {
			return Record{}, false
		}
	}
	switch w[13] {
	case ModeIsolated.String():
		r.OpenMode = ModeIsolated
	case ModeReserved.String():
		r.OpenMode = ModeReserved
	}
	return r, true
}

// DecodeDead is Decode for a tombstone, but reads only ID, Cause, Reason and LastTime, for lists of very many.
func DecodeDead(text string) (r Record, ok bool) {
	line, rest, _ := strings.Cut(text, "\n")
	var w [recordWords + 1]string
	n := 0
	for more := true; more; n++ {
		if n == len(w) {
			return r, false
		}
		w[n], line, more = strings.Cut(line, " ")
	}
	if State(w[5]) != StateDeadLetter || !isRecord(w[:n]) {
		return r, false
	}
	if n > recordWords {
		if _, moved := parseMove(w[recordWords]); !moved {
			return r, false
		}
	}
	skipped := number(w[21]) + number(w[22]) + number(w[23]) + number(w[24])
	id := number(w[20])
	if skipped < 0 || id < 0 || id+skipped < 0 || id+skipped > int64(len(rest)) {
		return r, false
	}
	return Record{Message: Message{ID: rest[:id]}, State: StateDeadLetter, Cause: Cause(word(w[11])),
		Reason: rest[id+skipped:], LastTime: after(w[9], w[10])}, true
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
	m := Move{CopyNumber: number(w[0]), Top: number(w[1]), Until: millis(w[2]), Body: w[4]}
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
		return Instant(min(n, lastMillis) + min(number(ms), lastMillis))
	}
	return time.Time{}
}

// lastMillis is the begin of the year 9999. JSON has no time after that year, and a wait is added to some times.
const lastMillis = 253370764800000

// Instant is a time that the store has in ms since 1970, between the zero time and the begin of the year 9999.
func Instant(ms int64) time.Time {
	return time.UnixMilli(max(min(ms, lastMillis), time.Time{}.UnixMilli())).UTC()
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

func parseTokens(s string) (out Tokens) {
	for entry := range strings.SplitSeq(s, ";") {
		if token, kind, ok := strings.Cut(entry, "="); ok && len(kind) == 1 {
			out = append(out, Token{Name: token, Kind: Kind(kind[0])})
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

// Encode writes the text of a record, as the scripts do. It cuts the texts that the record keeps for people.
func Encode(r Record) string {
	orNone := func(word string) string { return cmp.Or(word, ".") }
	mode := "."
	if r.OpenToken != "" {
		mode = r.OpenMode.String()
	}
	firsts := Flag(r.FirstFailed)
	if r.PossibleDuplicate {
		firsts = 2
	}
	var tokens, notes, history strings.Builder
	tokens.WriteByte('.')
	for _, t := range r.Tokens {
		fmt.Fprintf(&tokens, ";%s=%c", t.Name, t.Kind)
	}
	for _, n := range []struct {
		name string
		Note
	}{{"skip", r.Skipped}, {"reset", r.Reset}, {"removed", Note{At: r.Removed}}} {
		if !n.At.IsZero() {
			fmt.Fprintf(&notes, "%s %d %d %d\n%s%s", n.name, Millis(n.At), len(n.By), len(n.Why), n.By, n.Why)
		}
	}
	for _, n := range slices.Backward(r.History) {
		ran, reason := strconv.FormatInt(n.Ran.Milliseconds(), 10), n.Reason
		if n.Cause == CauseCrashed {
			if ran = n.Token; reason == crashReason {
				reason = ""
			}
		}
		fmt.Fprintf(&history, "\n%c%d\t%s\t%s\t%s", n.Cause[0], n.At.Sub(r.FirstTime).Milliseconds(), ran, n.Consumer, reason)
	}
	id, generation, consumer := printable.Cut(r.ID, MaxStoredID), printable.Cut(r.Generation, MaxStoredID),
		printable.Cut(r.Consumer, MaxStoredID)
	var out strings.Builder
	fmt.Fprintf(&out, "%d %d %d %d %d %s %d %d %d %d %d %s %s %s %d %d %d %d %d %s %d %d %d %d %d",
		r.Failures, r.Crashes, r.Starts, r.Fence, Flag(r.Suspect), orNone(string(r.State)), Millis(r.Binds), Millis(r.Due),
		r.Wait.Milliseconds(), Millis(r.FirstTime), Millis(r.LastTime)-Millis(r.FirstTime), orNone(string(r.Cause)),
		orNone(r.OpenToken), mode, Millis(r.OpenSince), Millis(r.Listed), r.Limit, r.OwnLimit, firsts, tokens.String(),
		len(id), len(generation), len(consumer), notes.Len(), history.Len())
	if m := r.Move; m.Top > 0 {
		fmt.Fprintf(&out, " %d:%d:%d:%s:%s", m.CopyNumber, m.Top, Millis(m.Until), orNone(m.Mover), m.Body)
	}
	out.WriteByte('\n')
	for _, text := range []string{id, generation, consumer, notes.String(), history.String(), r.Reason} {
		out.WriteString(text)
	}
	return out.String()
}

// causesByLetter are the causes in a history.
var causesByLetter = map[byte]Cause{'f': CauseFailed, 'p': CausePanicked, 't': CauseTimedOut, 'r': CauseRejected,
	'c': CauseCrashed}

// parseHistory reads a record's history, as scripts/record.lua describes it, the oldest attempt first. It skips
// entries that it cannot read.
func parseHistory(text, first string, counted int) []AttemptNote {
	var newest []AttemptNote
	for entry := range strings.SplitSeq(strings.TrimPrefix(text, "\n"), "\n") {
		fields := strings.Split(entry, "\t")
		if len(fields) != 4 || fields[0] == "" || causesByLetter[fields[0][0]] == "" {
			continue
		}
		n := AttemptNote{
			Number: counted - len(newest), At: after(first, fields[0][1:]), Cause: causesByLetter[fields[0][0]],
			Consumer: fields[2], Reason: fields[3],
		}
		if n.Cause == CauseCrashed {
			n.Reason, n.Token = cmp.Or(n.Reason, crashReason), fields[1]
		} else {
			n.Ran = time.Duration(min(number(fields[1]), MaxWaitMillis)) * time.Millisecond
		}
		newest = append(newest, n)
	}
	slices.Reverse(newest)
	return newest
}

// parseNotes reads the notes of a record by their first word, as scripts/record.lua describes them, up to one it
// cannot read.
func parseNotes(text string) map[string]Note {
	notes := map[string]Note{}
	for text != "" {
		line, rest, whole := strings.Cut(text, "\n")
		w := strings.Split(line, " ")
		if !whole || len(w) != 4 {
			break
		}
		parts, after, ok := take(rest, w[2:])
		if !ok {
			break
		}
		notes[w[0]], text = Note{By: parts[0], Why: parts[1], At: millis(w[1])}, after
	}
	return notes
}
