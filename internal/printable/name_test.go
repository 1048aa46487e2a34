package printable

import "testing"

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
