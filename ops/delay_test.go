package ops

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

// TestDelayQueuesAreNotSummarised: All summarises no delay queue, and no queue that is gone.
func TestDelayQueuesAreNotSummarised(t *testing.T) {
	listed := map[string]broker.Listed{}
	for name, ready := range map[string]int{"strikes.delay.lost": 2, "strikes.delay.1m": 3, "orders": 4,
		"strikes.delay.of.mine": 5} {
		listed[name] = broker.Listed{Queue: broker.Queue{Name: name}, Load: broker.Load{Ready: ready}}
	}
	gone := Collector{lists: lists{listing: inspect.Listing{Queues: []string{"gone"}}}}
	if diff := cmp.Diff([]string{"orders", "strikes.delay.of.mine"}, gone.wanted(sight{listed: listed})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]DelayQueue{{"strikes.delay.1m", 3}, {"strikes.delay.lost", 2}}, delayOf(listed)); diff != "" {
		t.Error(diff)
	}
	if delayOf(listed)[0].Lost() || !delayOf(listed)[1].Lost() {
		t.Error("the wrong queue holds lost messages")
	}
}

// TestMovedMessage: the record says that a waiting message was moved.
func TestMovedMessage(t *testing.T) {
	for moved, top := range map[bool]int64{false: 0, true: 2} {
		r := counter.Record{Failures: 1, LastTime: noon, Due: noon.Add(time.Hour), Wait: time.Hour,
			Move: counter.Move{Top: top}}
		if m := blocking(r, nil, &Status{Time: noon}); m.State != Waiting || m.Moved != moved {
			t.Errorf("with %d moves: %+v", top, m)
		}
	}
}
