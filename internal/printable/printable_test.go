package printable

import "testing"

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
