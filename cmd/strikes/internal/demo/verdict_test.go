package demo

import (
	"slices"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/counter"
)

// goodEvidence is the evidence of a demo that went well.
func goodEvidence() evidence {
	e := evidence{
		queue: "q", attempts: map[string]int{}, done: map[string]int{},
		deadLetters: []deadLetter{{ID: "order-07", Reason: "rejected", From: "q"}},
		records: []counter.Record{
			{Message: counter.Message{ID: "order-07"}, State: counter.StateDeadLetter, Failures: 4},
			{Message: counter.Message{ID: "order-04"}, State: counter.StateDone, Failures: 2},
			{Message: counter.Message{ID: "order-12"}, State: counter.StateDone, Crashes: 1},
		},
	}
	for _, o := range orders() {
		e.attempts[o.ID], e.done[o.ID] = 1, 1
	}
	e.attempts["order-04"], e.attempts["order-07"], e.attempts["order-12"] = 3, 4, 4
	delete(e.done, "order-07")
	return e
}

func TestVerdictOfGoodEvidence(t *testing.T) {
	v := newVerdict(orders(), goodEvidence())
	if !v.OK || v.Orders != 20 || v.Handled != 19 || len(v.Checks) != 5 {
		t.Errorf("%+v", v)
	}
}

// TestVerdictTellsWhatWasHandledAgain: a consumer was killed before the broker had its ack, so the order was delivered
// again.
func TestVerdictTellsWhatWasHandledAgain(t *testing.T) {
	e := goodEvidence()
	e.done["order-11"], e.attempts["order-11"], e.again = 2, 2, map[string]int{"order-11": 1}
	v := newVerdict(orders(), e)
	var out strings.Builder
	v.print(&out)
	if !v.OK || !strings.Contains(out.String(), "order-11 was handled 1 time more: its consumer was killed before the "+
		"broker had the ack") {
		t.Errorf("ok %v:\n%s", v.OK, &out)
	}
}

func TestVerdictFindsEachFault(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(e *evidence)
		check string // the one that fails
	}{
		{"an order is left", func(e *evidence) { e.left = 1 }, "orders still in the queue"},
		{"no dead letter", func(e *evidence) { e.deadLetters = nil }, "orders in the dead-letter queue"},
		{"dead-lettered twice", func(e *evidence) {
			e.deadLetters = append(e.deadLetters, e.deadLetters[0])
		}, "orders in the dead-letter queue"},
		{"the wrong one", func(e *evidence) { e.deadLetters[0].ID = "order-08" }, "orders in the dead-letter queue"},
		{"by a limit of the broker's", func(e *evidence) {
			e.deadLetters[0].Reason = "delivery_limit"
		}, "orders in the dead-letter queue"},
		{"lost", func(e *evidence) { delete(e.done, "order-01") }, "orders handled to the end"},
		{"handled twice", func(e *evidence) { e.done["order-01"] = 2 }, "orders handled to the end"},
		{"handled twice, and a kill explains another", func(e *evidence) {
			e.done["order-01"], e.attempts["order-01"] = 2, 2
			e.done["order-02"], e.attempts["order-02"], e.again = 2, 2, map[string]int{"order-02": 1}
		}, "orders handled to the end, attempts of the handler"},
		{"more often than a kill explains", func(e *evidence) {
			e.done["order-01"], e.attempts["order-01"], e.again = 3, 2, map[string]int{"order-01": 1}
		}, "orders handled to the end"},
		{"the poison was handled", func(e *evidence) { e.done["order-07"] = 1 }, "orders handled to the end"},
		{"one attempt too few", func(e *evidence) { e.attempts["order-07"] = 3 }, "attempts of the handler"},
		{"one attempt too many", func(e *evidence) { e.attempts["order-19"] = 2 }, "attempts of the handler"},
		{"a foreign order", func(e *evidence) {
			delete(e.attempts, "order-01")
			e.attempts["order-99"] = 1
		}, "attempts of the handler"},
		{"a crash is counted for a neighbour", func(e *evidence) {
			e.records = append(e.records, counter.Record{Message: counter.Message{ID: "order-13"}, Crashes: 1})
		}, "what is counted"},
		{"a failure is counted as a crash", func(e *evidence) {
			e.records[0].Failures, e.records[0].Crashes = 3, 1
		}, "what is counted"},
		{"the flaky one is forgotten", func(e *evidence) { e.records = slices.Delete(e.records, 1, 2) }, "what is counted"},
		{"the killer is not found", func(e *evidence) { e.records[2].Crashes = 0 }, "what is counted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := goodEvidence()
			tt.spoil(&e)
			v := newVerdict(orders(), e)
			var failed []string
			for _, c := range v.Checks {
				if !c.OK {
					failed = append(failed, c.What)
				}
			}
			if v.OK || strings.Join(failed, ", ") != tt.check {
				t.Errorf("ok %v, failed: %q, want %q", v.OK, failed, tt.check)
			}
			var out strings.Builder
			v.print(&out)
			if !strings.Contains(out.String(), "WRONG "+failed[0]) || strings.Contains(out.String(), "none lost") {
				t.Errorf("printed:\n%s", &out)
			}
		})
	}
}
