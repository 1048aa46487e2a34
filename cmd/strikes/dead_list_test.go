package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/strikesmq/strikes/deadletter"
)

// TestDeadTableOnTerminal has ids of the greatest length, some of which are longer once they can be shown.
func TestDeadTableOnTerminal(t *testing.T) {
	for _, tc := range []struct{ id, want string }{
		{"order-17", "order-17 "},
		{strings.Repeat("x", idColumns), strings.Repeat("x", idColumns) + " "},
		{strings.Repeat("x", 255), strings.Repeat("x", idColumns-1) + "… "},
		{strings.Repeat("ü", 127), strings.Repeat("ü", idColumns-1) + "… "},
		{strings.Repeat("\x1b", 255), `"` + strings.Repeat(`\x1b`, 9) + `\x…`},
	} {
		var out strings.Builder
		for _, most := range []int{idColumns, 0} {
			out.Reset()
			table := &deadTable{w: &out, most: most}
			if err := table.row(&deadletter.Message{ID: tc.id}); err != nil {
				t.Fatal(err)
			}
			if err := table.flush(); err != nil {
				t.Fatal(err)
			}
			_, line, _ := strings.Cut(out.String(), "\n")
			if cut := strings.HasPrefix(line, tc.want); cut != (most > 0 || len(tc.id) <= idColumns) || !utf8.ValidString(line) {
				t.Errorf("%q, at most %d: %q", tc.id, most, line)
			}
		}
	}
}
