package counter

import (
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/setting"
)

// Note says who changed something, when and why. People write its strings: like those of a Record, do not print them on a
// terminal unescaped.
type Note struct {
	By  string    // cut to 512 bytes; may be empty
	Why string    // cut to MaxReason bytes; must not be empty
	At  time.Time // by the store's clock; ignored where a Note is given
}

func (n Note) validate() error {
	if strings.TrimSpace(n.Why) == "" {
		return setting.New("Why", "", "the reason for the change")
	}
	return nil
}

// kept is what the store keeps of a given note.
func (n Note) kept() Note {
	return Note{By: printable.Cut(n.By, maxStoredID), Why: strings.TrimRight(printable.Cut(n.Why, MaxReason), "\n")}
}

// parseNote reads a note from the fields of a hash.
func parseNote(h map[string]string) Note {
	return Note{By: h["by"], Why: h["why"], At: millis(h["at"])}
}

// parseNotes reads the notes of a record by their first word, as scripts/record.lua describes them, up to one it cannot read.
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
