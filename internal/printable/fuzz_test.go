package printable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzTerminal: nothing that is shown can be obeyed by a terminal, nor end a line that it is on.
func FuzzTerminal(f *testing.F) {
	for _, seed := range []string{
		"order-7", "", " ", "\x1b[2J", "\u009b31m", "\x1b]0;title\a", "a\nb", "a\rb", "\u2028", "\u202edrawkcab", "\xff\xfe",
		"\ufeff", "\"\\", "\U000e0001", "\u00ad",
	} {
		f.Add(seed, 10)
	}
	f.Fuzz(func(t *testing.T, s string, most int) {
		for name, got := range map[string]string{
			"text": Text(s, ""), "name": Name(s), "line": Line(s, max(most%200, 0)),
		} {
			if !utf8.ValidString(got) {
				t.Errorf("%s(%q) = %q is not UTF-8", name, s, got)
			}
			if i := strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%s(%q) = %q", name, s, got)
			}
		}
	})
}
