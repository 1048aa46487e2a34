package counter

import "testing"

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
