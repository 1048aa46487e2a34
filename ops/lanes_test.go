package ops

import (
	"fmt"
	"testing"

	"github.com/strikesmq/strikes/counter"
)

// TestLanesOfPages: each blocked lane is on one page, also of the lanes that were blocked in the same millisecond.
func TestLanesOfPages(t *testing.T) {
	const held = 200
	store, queues := counter.NewMemory(nil), []string{"orders.0", "orders.1"}
	for _, queue := range queues {
		if _, err := store.OwnLanes(t.Context(), "/", queue, "", "o"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range held {
		step := counter.LaneStep{Message: counter.Message{VHost: "/", Queue: queues[i%2], ID: "m"}, Lane: fmt.Sprint(i),
			Act: counter.LaneBlock, Owner: "o", Number: 1}
		if _, err := store.StepLane(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for skip := 0; skip < held; skip += 7 {
		lanes, blocked, err := Lanes(t.Context(), store.Admin(), "/", queues, skip, 7)
		if err != nil || blocked != held {
			t.Fatalf("%d lanes are blocked, %v", blocked, err)
		}
		for _, l := range lanes {
			seen[l.Lane] = true
		}
	}
	if len(seen) != held {
		t.Errorf("the pages list %d lanes, want %d", len(seen), held)
	}
}
