package render

import (
	"fmt"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/records"
)

// WriteOff returns the line about what was written off, or would be.
func WriteOff(w records.WriteOff) string {
	verb := "would be written off"
	if w.Done {
		verb = "written off"
	}
	return fmt.Sprintf("%s: %s %s", term.Shown(w.Queue), printable.Plural(int(w.Count), "dead letter"), verb)
}
