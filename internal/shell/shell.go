// Package shell writes words of a command line that is pasted into a POSIX shell.
package shell

import (
	"fmt"
	"strconv"
	"strings"
)

// Word returns s as one word, quoted if it must be. It holds no control characters. A line break at the end of s is
// lost; no name in RabbitMQ has one.
func Word(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return Quote(s)
}

// Quote is Word, but always quotes.
func Quote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) || r == '\ufffd' }) {
		return printf(s)
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// printf lets the shell make a word with characters that a terminal would obey or not show.
func printf(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '%':
			b.WriteString("%%")
		case c == '\'' || c == '\\' || c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return `"$(printf '` + b.String() + `')"`
}

// Operands joins words so that none is taken for a flag: after -- if one of them begins with a dash.
func Operands(operands ...string) string {
	words, dash := make([]string, len(operands)), ""
	for i, o := range operands {
		words[i] = Word(o)
		if strings.HasPrefix(o, "-") {
			dash = "-- "
		}
	}
	return dash + strings.Join(words, " ")
}
