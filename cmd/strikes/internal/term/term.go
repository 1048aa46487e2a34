// Package term prints on terminals: tables, rows and progress.
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

// Ago is how long ago t was, "-" for the zero time.
func Ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return printable.Rough(time.Since(t))
}
