package counter

import (
	"errors"
	"time"
)

// Note says who changed something, and why. Its strings are written by people for people: like those of a Record they must
// not reach a terminal as they are.
type Note struct {
	By  string    // cut to 512 bytes; may be empty
	Why string    // cut to MaxReason bytes; must not be empty
	At  time.Time // when, by the clock of the store; ignored where a Note is given
}

var errNoReason = errors.New("Note.Why is empty: whoever reads it later wants to know")

func (n Note) validate() error {
	if n.Why == "" {
		return errNoReason
	}
	return nil
}

// kept is what is stored of a note that is given.
func (n Note) kept() Note { return Note{By: cut(n.By, maxStoredID), Why: cut(n.Why, MaxReason)} }

// parseNote reads a note from the fields of a hash whose names begin so.
func parseNote(h map[string]string, prefix string) Note {
	return Note{By: h[prefix+"by"], Why: h[prefix+"why"], At: millis(h[prefix+"at"])}
}
