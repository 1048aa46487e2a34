package counter

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/counter/rules"
)

// TestLookup finds generations by their names.
func TestLookup(t *testing.T) {
	for _, c := range counters(t) {
		var asked []Message
		for i := range 2*page + 1 {
			m := message(fmt.Sprint(i))
			if i%2 == 0 {
				m.Generation = "header:" + strings.Repeat("long", rules.MaxStoredID) // kept in part
			}
			if i%10 == 0 {
				mustFail(t, c, m, "a")
			}
			asked = append(asked, Message{ID: m.ID, Generation: m.Generation})
		}
		found, err := c.Admin().Lookup(t.Context(), "/", "orders", asked)
		if err != nil || len(found) != page/5+1 {
			t.Fatalf("%d found, %v", len(found), err)
		}
		for m, r := range found {
			if m.VHost != "/" || m.Queue != "orders" || r.ID != m.ID || r.Failures != 1 {
				t.Errorf("%.40q: %+v", m.ID, r)
			}
		}
		if other, err := c.Admin().Lookup(t.Context(), "/", "bills", asked); len(other) != 0 || err != nil {
			t.Errorf("of another queue: %v, %v", other, err)
		}
		if none, err := c.Admin().Lookup(t.Context(), "/", "orders", nil); len(none) != 0 || err != nil {
			t.Errorf("of nothing: %v, %v", none, err)
		}
	}
}

// TestGenerations has many messages of which few were published again.
func TestGenerations(t *testing.T) {
	for _, c := range counters(t) {
		var want, got []string
		for i, id := range fillIndex(t, c, 2*page+50, func(i int) int64 { return int64(i) }) {
			if i%7 == 0 {
				m := message(id)
				m.Generation = fmt.Sprintf("1@%d", i)
				mustFail(t, c, m, "b")
				want = append(want, m.ID+" "+m.Generation)
			}
		}
		for r, err := range c.Admin().Generations(t.Context(), "/", "orders") {
			need(t, err)
			got = append(got, r.ID+" "+r.Generation)
		}
		slices.Sort(want)
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		for range c.Admin().Generations(t.Context(), "/", "bills") {
			t.Error("of another queue")
		}
	}
}
