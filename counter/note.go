package counter

import (
	"strings"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/setting"
)

// checkNote refuses a note that does not say why.
func checkNote(n Note) error {
	if strings.TrimSpace(n.Why) == "" {
		return setting.New("Why", "", "the reason for the change")
	}
	return nil
}

// keptNote cuts a note to the lengths that the store keeps.
func keptNote(n Note) Note {
	return Note{By: printable.Cut(n.By, rules.MaxStoredID), Why: strings.TrimRight(printable.Cut(n.Why, MaxReason), "\n")}
}

// parseNote reads a note from the fields of a hash.
func parseNote(h map[string]string) Note {
	return Note{By: h["by"], Why: h["why"], At: millis(h["at"])}
}
