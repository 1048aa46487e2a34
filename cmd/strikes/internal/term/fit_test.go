package term

import (
	"testing"
)

func TestFit(t *testing.T) {
	for _, tc := range []struct {
		text  string
		width int
		want  string
	}{
		{"orders", 0, "orders"}, {"orders", 6, "orders"}, {"orders", 5, "orde…"}, {"orders", 1, "…"}, {"", 1, ""},
		// two columns each
		{"注文注文", 8, "注文注文"}, {"注文注文", 7, "注文注…"}, {"注文注文", 6, "注文…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
	} {
		if got := Fit(tc.text, tc.width); got != tc.want {
			t.Errorf("fit(%q, %d) = %q, want %q", tc.text, tc.width, got, tc.want)
		}
	}
}

func TestJoined(t *testing.T) {
	rows := []Row{{Text: "limit"}, {Text: "late", Kind: Alarm}}
	for color, want := range map[bool]string{false: "limit\nlate\n", true: "limit\n\x1b[31mlate\x1b[0m\n"} {
		if got := Joined(rows, color); got != want {
			t.Errorf("color %t: %q", color, got)
		}
	}
}
