package term

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/strikesmq/strikes/internal/printable"
)

// Printable escapes what a terminal might obey; the characters in keep stay as they are.
func Printable(s, keep string) string {
	return printable.Text(s, keep)
}

// Shown returns a name for a line of text: as it is if it is one plain word, else quoted.
func Shown(s string) string {
	if q := strconv.Quote(s); s == "" || strings.ContainsRune(s, ' ') || q[1:len(q)-1] != s {
		return q
	}
	return s
}

// Brief returns the first line of a text, cut to about so many characters, fit for a terminal.
func Brief(s string, most int) string {
	s = strings.TrimSpace(s)
	line, _, more := strings.Cut(s, "\n")
	line = strings.TrimSpace(line)
	if utf8.RuneCountInString(line) > most {
		line, more = string([]rune(line)[:most]), true
	}
	if line = Printable(line, ""); more {
		line += "…"
	}
	return line
}
