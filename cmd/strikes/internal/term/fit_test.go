package term

import (
	"fmt"
	"strings"
	"testing"
)

func TestFit(t *testing.T) {
	for _, tc := range []struct {
		text  string
		width int
		want  string
	}{
		{"orders", 0, "orders"}, {"orders", 6, "orders"}, {"orders", 5, "orde…"}, {"orders", 1, "…"}, {"", 1, ""},
		{"注文注文", 8, "注文注文"}, {"注文注文", 7, "注文注…"}, {"注文注文", 6, "注文…"}, // two columns each
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
	} {
		if got := Fit(tc.text, tc.width); got != tc.want {
			t.Errorf("fit(%q, %d) = %q, want %q", tc.text, tc.width, got, tc.want)
		}
	}
}

func TestFittedHeight(t *testing.T) {
	var rows []Row
	for i := range 10 {
		rows = append(rows, Row{Text: fmt.Sprint("row ", i)})
	}
	for height, last := range map[int]string{0: "row 9", 10: "row 9", 9: "… 2 lines more", 2: "… 9 lines more", 1: "… 10 lines more"} {
		got := Fitted(rows, 80, height, true)
		if height > 0 && len(got) != height || !strings.Contains(got[len(got)-1], last) {
			t.Errorf("height %d: %q", height, got)
		}
	}
}

func TestColorOnlyWhereItIsWanted(t *testing.T) {
	r := Row{Text: "text", Kind: Alarm}
	if got := r.print(0, false); got != "text" {
		t.Errorf("plain: %q", got)
	}
	if got := r.print(3, true); got != "\x1b[31mte…\x1b[0m" {
		t.Errorf("in color: %q", got)
	}
}
