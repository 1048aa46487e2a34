// Package printable writes text for people: it escapes characters that a terminal or a page might obey, and counts
// things.
package printable

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Text escapes the characters that do not print: control characters, marks that turn the direction of text, bytes that
// are no UTF-8. The characters in keep stay as they are.
func Text(s, keep string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[0])|0x100, 16)[1:])
		case strconv.IsPrint(r) || strings.ContainsRune(keep, r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		s = s[size:]
	}
	return b.String()
}

// Cut shortens s to at most n bytes without splitting a character.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for at := n; at >= 0 && at > n-utf8.UTFMax; at-- {
		if utf8.RuneStart(s[at]) {
			return s[:at]
		}
	}
	return s[:n] // it is no UTF-8
}

// Why is the Line of an error, which may have no text.
func Why(s string, most int) string { return cmp.Or(Line(s, most), NoText) }

// Name returns a name for a line of text: as it is if it is one plain word, else quoted.
func Name(s string) string {
	if q := strconv.Quote(s); s == "" || strings.ContainsRune(s, ' ') || q[1:len(q)-1] != s {
		return q
	}
	return s
}

// NoText stands for a text of white space only.
const NoText = "(no text)"

// Line returns the first line of a text, escaped, cut to about so many characters. An empty text stays empty.
func Line(s string, most int) string {
	line, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	if line == "" && s != "" {
		return NoText
	}
	line = strings.TrimSpace(line)
	if utf8.RuneCountInString(line) > most {
		line, more = string([]rune(line)[:most]), true
	}
	if line = Text(line, ""); more {
		line += "…"
	}
	return line
}

// Rough is a duration in its largest unit.
func Rough(d time.Duration) string {
	switch {
	case d < time.Second:
		return "<1s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
