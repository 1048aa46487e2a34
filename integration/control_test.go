package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// TestOperatorsAreObeyedAtTheNextStep: while two processes retry six messages, an operator raises the queue's limit.
// The operator also gives one message a limit of its own, and resets another. Both processes obey, and neither is
// restarted.
func TestOperatorsAreObeyedAtTheNextStep(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		t.Parallel() // most of it is waiting
		spec, c := newChild(t, queue)
		spec.Backoff = 2 * time.Second // the changes are made before a message has failed four times
		all := []string{"m0", "m1", "m2", "m3", "m4", "m5"}
		spec.Fail = all
		first, second := spec.spawn(t), spec.spawn(t)
		eventually(t, "two consumers", func() bool { return consumers(t, queue) == 2 })
		publish(t, queue, "m", len(all))
		eventually(t, "a run of each message", func() bool {
			byID, _ := spec.runs(t)
			return len(byID) >= len(all)
		})
		limited, cleaned := counter.Message{VHost: "/", Queue: queue, ID: "m0"}, counter.Message{VHost: "/", Queue: queue,
			ID: "m1"}
		why := counter.Note{By: "jo", Why: "supplier down"}
		for _, m := range all {
			eventually(t, "a failed attempt of "+m, func() bool { return recorded(t, c, queue, m) })
		}
		for what, err := range map[string]error{
			"limit": c.Admin().SetLimit(t.Context(), "/", queue, counter.Override{MaxRetries: new(5), Note: why}),
			"own":   c.Admin().LimitMessage(t.Context(), limited, 8, why),
			"reset": c.Admin().Reset(t.Context(), cleaned, why),
		} {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		eventually(t, "every message dead-lettered", func() bool { return queueDepth(t, queue+".dlq") == len(all) })
		terminate(t, first, second)

		runs, late := map[string][]told{}, map[int]bool{}
		for _, l := range spec.told(t) {
			runs[l.id] = append(runs[l.id], l)
			if l.number > 4 { // beyond the limit of the processes
				late[l.pid] = true
			}
		}
		if len(late) != 2 {
			t.Errorf("only processes %v ran messages beyond their own limit", late)
		}
		for _, id := range all {
			checkObeyed(t, id, runs[id])
		}
		if r := one(t, c, queue, "m0"); r.OwnLimit != 8 || r.Failures != 8 {
			t.Errorf("record of m0: %+v", r)
		}
		if r := one(t, c, queue, "m1"); r.Reset.By != why.By || r.Failures != 6 {
			t.Errorf("record of m1: %+v", r)
		}
		if b, err := c.Admin().State(t.Context(), "/", queue); b.Tombstones.Count != int64(len(all)) || err != nil {
			t.Errorf("tombstones: %+v, %v", b.Tombstones, err)
		}
	})
}

func recorded(t *testing.T, c *counter.Counter, queue, id string) bool {
	t.Helper()
	records, err := c.Admin().Get(t.Context(), "/", queue, id)
	need(t, err)
	return len(records) == 1 && records[0].Counted() > 0
}

// checkObeyed checks the attempts at a message against the changes that the operator made to it.
func checkObeyed(t *testing.T, id string, runs []told) {
	t.Helper()
	want := []int{1, 2, 3, 4, 5, 6}
	switch id {
	case "m0":
		want = append(want, 7, 8)
	case "m1": // the attempts before the reset, then all again; one that ran through the reset was the first
		again := 1
		for again < len(runs) && runs[again].number > runs[again-1].number {
			again++
		}
		if again == len(runs) || runs[again].number > 2 {
			t.Errorf("m1 did not begin again: %v", runs)
			return
		}
		runs, want = runs[again:], want[runs[again].number-1:]
	}
	var numbers []int
	for _, l := range runs {
		numbers = append(numbers, l.number)
	}
	if !slices.Equal(numbers, want) {
		t.Errorf("attempts of %s: %v, want %v", id, numbers, want)
	}
	if l := runs[len(runs)-1]; l.last != want[len(want)-1] {
		t.Errorf("the last attempt of %s was told that %d is the last one: %+v", id, l.last, l)
	}
}
