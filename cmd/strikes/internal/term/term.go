// Package term prints on terminals: text that no terminal obeys, tables, progress.
package term

import (
	"math"
	"os"
	"strconv"
	"strings"
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

// Printable escapes what a terminal might obey; the characters in keep stay as they are.
func Printable(s, keep string) string {
	return printable.Text(s, keep)
}

// Shown returns a name for a line of text: as it is if it is one plain word, else quoted.
func Shown(s string) string { return printable.Name(s) }

// Brief returns the first line of a text, cut to about so many characters, fit for a terminal.
func Brief(s string, most int) string { return printable.Line(s, most) }

// Day has 24 hours.
const Day = 24 * time.Hour

// ParseAge reads 90s, 1h30m, 7d or 1d12h.
func ParseAge(s string) (time.Duration, error) {
	days, rest, has := strings.Cut(s, "d")
	if !has {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseUint(days, 10, 64)
	if err != nil {
		return 0, err
	}
	var more time.Duration
	if rest != "" {
		more, err = time.ParseDuration(rest)
	}
	if n >= uint64(math.MaxInt64/Day) || more < 0 || more > Day {
		return 0, strconv.ErrRange
	}
	return time.Duration(n)*Day + more, err
}

// Rough is a duration in its largest unit.
func Rough(d time.Duration) string { return printable.Rough(d) }

// Ago is how long ago t was, "-" for the zero time.
func Ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return Rough(time.Since(t))
}
