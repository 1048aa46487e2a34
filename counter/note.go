package counter

import (
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/setting"
)

// Note says who changed something, and why. Its strings are written by people for people: like those of a Record they must
// not reach a terminal as they are.
type Note struct {
	By  string    // cut to 512 bytes; may be empty
	Why string    // cut to MaxReason bytes; must not be empty
	At  time.Time // when, by the clock of the store; ignored where a Note is given
}

var errNoReason error = setting.New("Why", "", "the reason for the change")

func (n Note) validate() error {
	if n.Why == "" {
		return errNoReason
	}
	return nil
}

// kept is what is stored of a note that is given.
func (n Note) kept() Note { return Note{By: cut(n.By, maxStoredID), Why: cut(n.Why, MaxReason)} }

// parseNote reads a note from the fields of a hash.
func parseNote(h map[string]string) Note {
	return Note{By: h["by"], Why: h["why"], At: millis(h["at"])}
}

// parseNotes reads those of a record, by the word that each begins with; scripts/record.lua describes them. What follows one
// that it cannot read is not known.
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
