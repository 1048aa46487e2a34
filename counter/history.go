package counter

import (
	"cmp"
	"strings"
	"time"
)

// Bounds of a history, as in scripts/record.lua.
const (
	historyKept = 16
	maxNoteLine = 120
)

// AttemptNote is what a record remembers of one counted attempt. Do not print its strings on a terminal unescaped.
type AttemptNote struct {
	Number int           // of the attempt in its generation, from 1
	At     time.Time     // when it was counted; of a crash: when another attempt found it
	Ran    time.Duration // how long its handler ran; 0 of a crash: not known
	Cause  Cause
	Holder string // its process; cut to 120 bytes
	Reason string // the first line; cut to 120 bytes
}

// causesByLetter are the causes in a history.
var causesByLetter = map[byte]Cause{'f': CauseFailed, 'p': CausePanicked, 't': CauseTimedOut, 'r': CauseRejected, 'c': CauseCrashed}

// sameText stands for the text of the next newer failure.
const sameText = "\r"

// parseHistory reads a record's history, as scripts/record.lua describes it, the oldest attempt first. It skips what it cannot read.
func parseHistory(text, first, reason string, counted int) []AttemptNote {
	var newest []AttemptNote
	holder, line := "", noteLine(reason)
	for entry := range strings.SplitSeq(strings.TrimPrefix(text, "\n"), "\n") {
		fields := strings.Split(entry, "\t")
		if len(fields) != 4 || fields[0] == "" {
			continue
		}
		n := AttemptNote{
			Number: counted - len(newest), At: after(first, fields[0][1:]), Cause: causesByLetter[fields[0][0]], Holder: fields[2],
		}
		if n.Cause == CauseCrashed {
			n.Reason = cmp.Or(fields[3], crashReason)
		} else {
			n.Ran = time.Duration(min(number(fields[1]), maxWaitMillis)) * time.Millisecond
			if fields[2] != sameText {
				holder = fields[2]
			}
			if fields[3] != sameText {
				line = fields[3]
			}
			n.Holder, n.Reason = holder, line
		}
		newest = append(newest, n)
	}
	if len(newest) == 0 {
		return nil
	}
	out := make([]AttemptNote, 0, len(newest))
	for i := range newest {
		out = append(out, newest[len(newest)-1-i])
	}
	return out
}

// noteLine is the first line of a reason as a history keeps it.
func noteLine(reason string) string {
	line := strings.TrimLeft(reason, "\r\n")
	if end := strings.IndexAny(line, "\r\n"); end >= 0 {
		line = line[:end]
	}
	return wholeCharacters(noteText(line))
}

// noteHolder is a holder as a history keeps it.
func noteHolder(holder string) string {
	return noteText(strings.NewReplacer("\r", " ", "\n", " ").Replace(holder))
}

func noteText(text string) string {
	text = strings.ReplaceAll(text, "\t", " ")
	return text[:min(len(text), maxNoteLine)]
}

// wholeCharacters removes the last character of a text that was cut, which may be a part of one.
func wholeCharacters(text string) string {
	end := len(text)
	if end < maxNoteLine {
		return text
	}
	for end > 0 && text[end-1] >= 0x80 && text[end-1] < 0xC0 {
		end--
	}
	if end > 0 && text[end-1] >= 0xC0 {
		return text[:end-1]
	}
	return text
}

// noted is an AttemptNote in a Memory, and its token.
type noted struct {
	AttemptNote

	token string
}

// note adds a counted attempt.
func (e *entry) note(token, holder string, ran time.Duration, now time.Time) {
	n := noted{AttemptNote{Ran: ran, Cause: e.Cause, Holder: noteHolder(holder), Reason: noteLine(e.Reason), At: e.FirstTime}, token}
	if now.After(e.FirstTime) {
		n.At = now
	}
	e.noted = append(e.noted, n)
	e.noted = e.noted[max(len(e.noted)-historyKept, 0):]
}

// unnote removes a crash that was none.
func (e *entry) unnote(token string) {
	for i, n := range e.noted {
		if n.token == token && n.Cause == CauseCrashed {
			e.noted = append(e.noted[:i:i], e.noted[i+1:]...)
			return
		}
	}
}

// history returns the notes of the attempts, numbered.
func (e *entry) history() []AttemptNote {
	var out []AttemptNote
	for i, n := range e.noted {
		n.Number = e.Counted() - (len(e.noted) - 1 - i)
		out = append(out, n.AttemptNote)
	}
	return out
}
