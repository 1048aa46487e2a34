package printable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"order 17":            "order 17",
		"a\x1b[31m\u202e\x00": `a\x1b[31m\u202e\x00`,
		"\xff\xfeé":           `\xff\xfeé`,
		"a\tb\n":              "a\tb" + `\n`,
	} {
		if got := Text(in, "\t"); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestPlural(t *testing.T) {
	for _, tt := range []struct {
		n           int
		thing, want string
	}{
		{1, "retry", "1 retry"}, {2, "retry", "2 retries"}, {0, "delay", "0 delays"}, {2, "crash", "2 crashes"},
		{3, "process", "3 processes"}, {2, "dead letter", "2 dead letters"},
	} {
		if got := Plural(tt.n, tt.thing); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{{"order", 5, "order"}, {"order", 3, "ord"}, {"größe", 3, "gr"}, {"größe", 4, "grö"}, {"ß", 1, ""},
		{"a😀", 4, "a"}, {"\x9f\x9f", 1, "\x9f"}, {"a\x9f\x9f\x9f\x9f\x9f", 5, "a\x9f\x9f\x9f\x9f"}} {
		if got := Cut(tc.text, tc.n); got != tc.want {
			t.Errorf("%q at %d: %q, want %q", tc.text, tc.n, got, tc.want)
		}
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{"": "", " \t\r\n ": NoText, " a \nb": "a…", "abcdef": "abcde…"} {
		if got := Line(text, 5); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

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

func TestName(t *testing.T) {
	tests := []struct{ in, want string }{
		{"order-7", "order-7"},
		{"größe", "größe"},
		{"", `""`},
		{"two words", `"two words"`},
		{`a"b`, `"a\"b"`},
		{"\x1b[31mred", `"\x1b[31mred"`},
		{"a\x00b", `"a\x00b"`},
		{"\xff", `"\xff"`},
		{"\u202edrawkcab", `"\u202edrawkcab"`},
	}
	for _, tt := range tests {
		if got := Name(tt.in); got != tt.want {
			t.Errorf("%q = %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestLineIsShort(t *testing.T) {
	tests := []struct {
		in   string
		most int
		want string
	}{
		{"short", 10, "short"},
		{"\n first \nsecond", 10, "first…"},
		{"äöüäöü", 3, "äöü…"},
		{"\x1b[1m", 10, `\x1b[1m`},
		{"", 10, ""},
	}
	for _, tt := range tests {
		if got := Line(tt.in, tt.most); got != tt.want {
			t.Errorf("%q, %d: %q, want %q", tt.in, tt.most, got, tt.want)
		}
	}
}
