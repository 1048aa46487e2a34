// Package term prints on terminals: text that no terminal obeys, tables, progress.
package term

import (
	"os"
	"time"

	"golang.org/x/term"

	"github.com/strikesmq/strikes/internal/printable"
)

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Colored reports whether color may be written to a stream.
func Colored(stream any) bool {
	return IsTerminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Printable escapes the characters that a terminal might obey. Those in keep stay as they are.
func Printable(s, keep string) string {
	return printable.Text(s, keep)
}

// Shown returns a name for a line of text: as it is if it is one plain word, else quoted.
func Shown(s string) string { return printable.Name(s) }

// Brief returns the first line of a text, cut to about so many characters, fit for a terminal.
func Brief(s string, most int) string { return printable.Line(s, most) }

// Rough is a duration in its largest unit.
func Rough(d time.Duration) string { return printable.Rough(d) }

// Ago is how long ago t was, "-" for the zero time.
func Ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return Rough(time.Since(t))
}
