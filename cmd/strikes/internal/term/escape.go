package term

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printable escapes what a terminal might obey; the characters in keep stay as they are.
func Printable(s, keep string) string {
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
