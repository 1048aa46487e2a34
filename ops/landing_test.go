package ops

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/inspect"
)

func TestChooseLanding(t *testing.T) {
	type queues = []inspect.Landing
	dead, wait, eu := inspect.Landing{Name: "dead"}, inspect.Landing{Name: "wait", Delay: true},
		inspect.Landing{Name: "eu", Depends: true}
	behind := inspect.Landing{Name: "behind", Behind: true}
	for _, tc := range []struct {
		what  string
		all   []inspect.Landing
		name  string
		guess string
		err   string
	}{
		{"one", queues{dead}, "dead", "", ""},
		{"one for some keys", queues{eu}, "eu", "", ""},
		{"one that dead-letters on", queues{dead, behind}, "dead", "", ""},
		{"a delay beside it", queues{dead, wait}, "dead", "", ""},
		{"a delay before it", queues{wait, behind}, "behind", "", ""},
		{"a delay that leads back", queues{wait}, "wait", "", ""},
		{"several", queues{dead, eu}, "", "", "several queues: \"dead\", \"eu\" (some of them)"},
		{"none", nil, "q.dlq", "nothing is bound", ""},
	} {
		got, err := chooseLanding("q", tc.all, "nothing is bound")
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) || !errors.As(err, new(*AmbiguousError)) {
				t.Errorf("%s: %v", tc.what, err)
			}
			continue
		}
		if got.Name != tc.name || assumed(got) != tc.guess || err != nil {
			t.Errorf("%s: %+v, %v", tc.what, got, err)
		}
	}
}

func assumed(q DeadLetterQueue) string {
	if q.Assumed == nil {
		return ""
	}
	return q.Assumed.Error()
}

func TestSharing(t *testing.T) {
	to := func(landings ...inspect.Landing) inspect.Route { return inspect.Route{Landings: landings} }
	dead := inspect.Landing{Name: "dead", Behind: true}
	known := inspect.Listing{
		Partitions: map[string][]string{"orders": {"orders.0", "orders.1"}},
		Routes: map[string]inspect.Route{
			"orders.0": to(inspect.Landing{Name: "wait", Delay: true}, dead), "orders.1": to(dead), "wait": to(dead),
			"strikes.delay.1m": to(dead), "invoices": to(dead, inspect.Landing{Name: "audit"}), "dead": {},
			"other": to(inspect.Landing{Name: "other.dlq"}),
		},
	}
	for queue, want := range map[string][]string{"orders": {"invoices"}, "orders.1": {"invoices", "orders.0", "wait"},
		"invoices": {"orders.0", "orders.1", "wait"}} {
		if got := sharing(known, queue, "dead"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", queue, got, want)
		}
	}
	if got := sharing(known, "other", "other.dlq"); got != nil {
		t.Errorf("alone: %q", got)
	}
}

// TestLanes: the lanes of all partitions are listed together, and at most as many as asked for.
func TestLanes(t *testing.T) {
	const held = 200
	store, queues := counter.NewMemory(nil), []string{"orders.0", "orders.1"}
	for _, queue := range queues {
		if _, err := store.OwnLanes(t.Context(), "/", queue, "", "o"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range held {
		step := rules.LaneStep{Message: counter.Message{VHost: "/", Queue: queues[i%2], ID: "m"}, Lane: fmt.Sprint(i),
			Act: rules.LaneBlock, Owner: "o", Number: 1}
		if _, err := store.StepLane(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	for most, want := range map[int]int{0: 0, 7: 7, held: held, math.MaxInt: held} {
		lanes, blocked, err := Lanes(t.Context(), store.Admin(), "/", queues, most)
		if err != nil || blocked != held {
			t.Fatalf("%d lanes are blocked, %v", blocked, err)
		}
		seen := map[string]bool{}
		for _, l := range lanes {
			seen[l.Lane] = true
		}
		if len(seen) != want {
			t.Errorf("%d lanes of at most %d, want %d", len(seen), most, want)
		}
	}
}
