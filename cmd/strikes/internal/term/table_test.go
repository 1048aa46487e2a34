package term

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func tableText(width int, rows ...[]string) string {
	var b strings.Builder
	t := NewTable(&b, "ID", "STATE", "ERROR")
	t.width = width
	for _, r := range rows {
		_ = t.Row(r...)
	}
	_ = t.Flush()
	return b.String()
}

// TestTableFits: on a terminal the last cell is cut to the rest of the line, and a narrow one still shows a part of it.
func TestTableFits(t *testing.T) {
	long := strings.Repeat("order-", 7)
	rows := [][]string{{long, "retrying", "no stock for order 17 in any of the houses"}, {"注文-18", "done", ""}}
	cut := long[:longestCell-1] + "…  retrying  "
	for width, want := range map[int]string{
		0:  long + "  retrying  no stock for order 17 in any of the houses\n注文-18" + strings.Repeat(" ", 37) + "done\n",
		99: long + "  retrying  no stock for order 17 in any of the houses\n注文-18" + strings.Repeat(" ", 37) + "done\n",
		83: long + "  retrying  no stock for order 17 in any…\n注文-18" + strings.Repeat(" ", 37) + "done\n",
		80: long[:39] + "…  retrying  no stock for order 17 in an…\n注文-18" + strings.Repeat(" ", 35) + "done\n",
		12: cut + "no stock for order 17 in an…\n注文-18" + strings.Repeat(" ", 31) + "done\n",
	} {
		_, text, _ := strings.Cut(tableText(width, rows...), "\n")
		if diff := cmp.Diff(want, text); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", width, diff)
		}
	}
}

// TestTableBlocks: the header is there once, and no row is lost.
func TestTableBlocks(t *testing.T) {
	var rows [][]string
	for range blockRows + 10 {
		rows = append(rows, []string{"a", "done", ""})
	}
	rows[blockRows+5][2] = strings.Repeat("long ", 20)
	text := tableText(30, rows...)
	if n := strings.Count(text, "STATE"); n != 1 || strings.Count(text, "\n") != len(rows)+1 {
		t.Errorf("%d headers, %d lines", n, strings.Count(text, "\n"))
	}
	if tableText(0) != "" {
		t.Error("an empty table has a header")
	}
}

func TestFields(t *testing.T) {
	var f Fields
	f.Add("id", "order-17")
	f.Add("nothing", "")
	f.Add("last error", "panic: x\r\n\tmain.go:12\x1b[2J\n\nend\n")
	var b strings.Builder
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := "id          order-17\nlast error  panic: x\n                main.go:12\\x1b[2J\n            \n         " +
		"   end\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestFit(t *testing.T) {
	for _, tc := range []struct {
		text  string
		width int
		want  string
	}{
		{"orders", 6, "orders"}, {"orders", 5, "orde…"}, {"orders", 1, "…"}, {"", 1, ""},
		// two columns each
		{"注文注文", 8, "注文注文"}, {"注文注文", 7, "注文注…"}, {"注文注文", 6, "注文…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
	} {
		if got := fit(tc.text, tc.width); got != tc.want {
			t.Errorf("fit(%q, %d) = %q, want %q", tc.text, tc.width, got, tc.want)
		}
	}
}
