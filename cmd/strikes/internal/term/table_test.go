package term

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"
)

var tableColumns = []Column{{Title: "ID", Min: 6}, {Title: "STATE"}, {Title: "CRASHES", Drop: 2},
	{Title: "AGE", Drop: 1}, {Title: "ERROR", Min: 5}}

func tableText(width int, rows ...[]string) string {
	var b strings.Builder
	t := NewTable(&b, tableColumns...)
	t.width = width
	for _, r := range rows {
		_ = t.Row(r...)
	}
	_ = t.Flush()
	return b.String()
}

func TestTableFits(t *testing.T) {
	rows := [][]string{{"order-17", "retrying", "0", "3m", "no stock for order 17"}, {"注文-18", "done", "1", "2d", ""}}
	for width, want := range map[int]string{
		0: `
ID        STATE     CRASHES  AGE  ERROR
order-17  retrying  0        3m   no stock for order 17
注文-18   done      1        2d
`,
		50: `
ID        STATE     CRASHES  AGE  ERROR
order-17  retrying  0        3m   no stock for or…
注文-18   done      1        2d
`,
		36: `
ID        STATE     CRASHES  ERROR
order-17  retrying  0        no sto…
注文-18   done      1
`,
		24: `
ID      STATE     ERROR
order…  retrying  no st…
注文-…  done
`,
		12: `
ID      STA…
order…  ret…
注文-…  done
`,
	} {
		if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), tableText(width, rows...)); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", width, diff)
		}
	}
}

// TestTableNeverWraps: whatever the cells and the width, no line is wider than the terminal, and no row is lost.
func TestTableNeverWraps(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		width, rows := 1+random.IntN(120), make([][]string, 1+random.IntN(20))
		for i := range rows {
			for range tableColumns {
				rows[i] = append(rows[i], strings.Repeat("ab注é"[:random.IntN(2)*7], random.IntN(12)))
			}
		}
		lines := strings.Split(strings.TrimSuffix(tableText(width, rows...), "\n"), "\n")
		if len(lines) != len(rows)+1 {
			t.Fatalf("%d lines of %d rows", len(lines), len(rows))
		}
		for _, line := range lines {
			if uniseg.StringWidth(line) > width {
				t.Fatalf("wider than %d: %q", width, line)
			}
		}
	}
}

// TestTableBlocks: the header is there once, and the columns of the first block are those of all.
func TestTableBlocks(t *testing.T) {
	var rows [][]string
	for range blockRows + 10 {
		rows = append(rows, []string{"a", "done", "0", "1s", ""})
	}
	rows[blockRows+5][4] = strings.Repeat("long ", 20)
	text := tableText(30, rows...)
	if n := strings.Count(text, "CRASHES"); n != 1 || strings.Count(text, "\n") != len(rows)+1 {
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
