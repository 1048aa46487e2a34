package ops

import (
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// TestAnEmptyQueueBlocksNothing: the broker expired the message, and its record stays.
func TestAnEmptyQueueBlocksNothing(t *testing.T) {
	old := counter.Record{State: counter.StateLive, Failures: 1, LastTime: noon.Add(-time.Minute),
		Due: noon.Add(-50 * time.Second)}
	recent, waits, moved, returning := old, old, old, old
	recent.LastTime = noon.Add(-time.Second)
	waits.Due = noon.Add(time.Hour)
	moved.Move.Top, moved.Due = 1, noon.Add(time.Hour)
	returning.Move.Top, returning.Due = 1, noon.Add(-time.Second)
	n := func(i int) *int { return &i }
	for _, tt := range []struct {
		name    string
		r       counter.Record
		ready   int
		unacked *int
		want    int
	}{
		{"gone", old, 0, n(0), 0},
		{"gone before its retry", waits, 0, n(0), 0},
		{"ready", old, 1, n(0), 1},
		{"a consumer has it", old, 0, n(1), 1},
		{"unknown without the API", old, 0, nil, 1},
		{"the figures are older than its step", recent, 0, n(0), 1},
		{"in a delay queue", moved, 0, n(0), 1},
		{"on its way back", returning, 0, n(0), 1},
	} {
		s := Status{Time: noon, Ready: tt.ready, Unacked: tt.unacked, Consumers: 1}
		s.judge(facts{QueueState: counter.QueueState{Time: noon}, records: map[counter.Message]counter.Record{{}: tt.r}})
		if s.block(0); s.Blocked != tt.want || len(s.Blocking) != tt.want {
			t.Errorf("%s: %d block, want %d", tt.name, s.Blocked, tt.want)
		}
		if tt.unacked == nil {
			continue
		}
		all := Summary{Ready: &tt.ready, Unacked: tt.unacked}
		if all.ofStore(counter.Summary{QueueState: atNoon, Head: &tt.r}); (all.Head != nil) != (tt.want > 0) {
			t.Errorf("%s: the overview shows %+v", tt.name, all.Head)
		}
	}
}

// TestAnOperatorsPauseNamesNoMessage: a queue waits for a message only if it is paused for that message.
func TestAnOperatorsPauseNamesNoMessage(t *testing.T) {
	r := counter.Record{State: counter.StateLive, Failures: 2, Limit: 2, FirstTime: noon, LastTime: noon}
	r.ID = "m"
	s := Status{Time: noon, Ready: 1, Paused: &counter.Note{By: "ann", Why: "maintenance"}}
	s.judge(facts{QueueState: counter.QueueState{Time: noon}, records: map[counter.Message]counter.Record{r.Message: r}})
	if m := s.Blocking[0]; m.Holds {
		t.Errorf("the queue is said to wait for it: %q", m.Doing(noon))
	}
}

// TestWhich says which attempt of a message runs or is next.
func TestWhich(t *testing.T) {
	for want, m := range map[string]Message{
		"attempt 1":               {Attempt: 1},
		"attempt 1 of 2":          {Attempt: 1, Limit: 2},
		"all 2 attempts failed":   {Attempt: 3, Limit: 2},
		"its only attempt failed": {Attempt: 2, Limit: 1},
	} {
		if got := m.Which(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
