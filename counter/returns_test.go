package counter

import (
	"testing"
	"time"
)

func TestReturns(t *testing.T) {
	for i, c := range counters(t) {
		a := c.Admin()
		for _, n := range []int64{0, 7, 5, 0, 3} {
			need(t, a.NoteReturns(t.Context(), "/", "orders.dlq", n))
			got, err := a.Returns(t.Context(), "/", "orders.dlq")
			other, errOther := a.Returns(t.Context(), "/", "bills.dlq")
			if got != n || other != 0 || err != nil || errOther != nil {
				t.Errorf("store %d: %d, %v; want %d; of another queue %d, %v", i, got, err, n, other, errOther)
			}
		}
		now, docs, err := a.store.Load(t.Context(), Queue{"/", "orders.dlq"}, docReturns)
		if ttl := docs[0].Expires.Sub(now); err != nil || ttl <= 0 || ttl > returnsTTL {
			t.Errorf("store %d: it expires in %v, %v", i, ttl, err)
		}
	}
}

func TestNoteReplay(t *testing.T) {
	for i, c := range counters(t) {
		a := c.Admin()
		now, err := a.Now(t.Context())
		need(t, err)
		for _, begins := range []bool{false, true, true, false} {
			need(t, a.NoteReplay(t.Context(), "/", "orders.dlq", begins))
			at, err := a.Replaying(t.Context(), "/", "orders.dlq")
			other, errOther := a.Replaying(t.Context(), "/", "bills.dlq")
			if at.IsZero() == begins || begins && at.Sub(now).Abs() > time.Minute || !other.IsZero() || err != nil ||
				errOther != nil {
				t.Errorf("store %d, begins %v: %v, %v; of another queue %v, %v", i, begins, at, err, other, errOther)
			}
		}
	}
}
