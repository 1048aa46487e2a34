package counter

import (
	"fmt"
	"strings"
	"testing"
)

// TestLookup finds lives by their names alone.
func TestLookup(t *testing.T) {
	for _, c := range servers(t) {
		var asked []Message
		for i := range 2*page + 1 {
			m := message(fmt.Sprint(i))
			if i%2 == 0 {
				m.Life = "header:" + strings.Repeat("long", maxStoredID) // kept in part
			}
			if i%10 == 0 {
				mustFail(t, c, m, "a")
			}
			asked = append(asked, Message{ID: m.ID, Life: m.Life})
		}
		found, err := c.Lookup(t.Context(), "/", "orders", asked)
		if err != nil || len(found) != page/5+1 {
			t.Fatalf("%d found, %v", len(found), err)
		}
		for m, r := range found {
			if m.VHost != "/" || m.Queue != "orders" || r.ID != m.ID || r.Failures != 1 {
				t.Errorf("%.40q: %+v", m.ID, r)
			}
		}
		if other, err := c.Lookup(t.Context(), "/", "bills", asked); len(other) != 0 || err != nil {
			t.Errorf("of another queue: %v, %v", other, err)
		}
		if none, err := c.Lookup(t.Context(), "/", "orders", nil); len(none) != 0 || err != nil {
			t.Errorf("of nothing: %v, %v", none, err)
		}
	}
}
