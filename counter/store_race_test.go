package counter

import (
	"fmt"
	"sync"
	"testing"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/panics"
)

// byRules is a Counter on the same store which takes every step through Load and Save.
func byRules(c *Counter) *Counter {
	return Over(c.store, &c.opts)
}

// TestStoreRace: two clients count 400 failures of 5 messages, each once. Scripts and rules change the same records.
func TestStoreRace(t *testing.T) {
	type pair struct{ one, two *Counter }
	pairs := map[string]pair{}
	for _, s := range stores(t) {
		c := s.Counter
		if c.rdb != nil {
			pairs[s.name+", scripts"] = pair{c, New(c.rdb, &c.opts)}
			pairs[s.name+", both"] = pair{c, byRules(c)}
		}
		pairs[s.name+", rules"] = pair{byRules(c), byRules(c)}
	}
	for name, of := range pairs {
		var sending panics.Group
		sending.SetLimit(16)
		var mu sync.Mutex
		queue, exhausted := name, 0
		for i := range 400 {
			by := []*Counter{of.one, of.two}[i%2]
			m := Message{VHost: "/", Queue: queue, ID: fmt.Sprint(i % 5)}
			sending.Go(func() error {
				f := Failure{Limit: 80, Reason: "boom"}
				reply, err := by.Fail(t.Context(), attempt(m, fmt.Sprint("t", i)), f)
				mu.Lock()
				defer mu.Unlock()
				exhausted += rules.Flag(reply.Code == rules.ReplyExhausted)
				return err
			})
		}
		if err := sending.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		counted := 0
		for i := range 5 {
			records, err := of.one.Admin().Get(t.Context(), "/", queue, fmt.Sprint(i))
			if err != nil || len(records) != 1 {
				t.Fatalf("%s: %d: %+v, %v", name, i, records, err)
			}
			counted += records[0].Failures
		}
		state, err := of.one.Admin().State(t.Context(), "/", queue)
		dead := state.Tombstones
		if counted != 400 || exhausted != 5 || dead.Count != 5 || dead.Expired != 0 || err != nil {
			t.Errorf("%s: %d failures are counted, %d replies are EXHAUSTED, %+v, %v", name, counted, exhausted, dead, err)
		}
	}
}
