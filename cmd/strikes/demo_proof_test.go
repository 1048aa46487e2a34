package main

import (
	"strings"
	"testing"
	"time"
)

// goodEnds are the ends of the orders in a demo that went well.
func goodEnds() map[string]end {
	ends := map[string]end{}
	for _, o := range demoOrders() {
		ends[o.ID] = right[o.Kind]
	}
	return ends
}

func TestVerdictOfGoodEvidence(t *testing.T) {
	v := judge(demoOrders(), goodEnds(), 0)
	var out strings.Builder
	if v.print(&out, demoOrders(), time.Second); len(v.wrong) > 0 || strings.Count(out.String(), "  ok  ") != 4 ||
		!strings.Contains(out.String(), "20 orders: 19 handled, 1 dead-lettered, none lost.") ||
		!strings.Contains(out.String(), "order-12: 4 attempts (2 not counted), handled 1 time; the store counts 0 "+
			"failures, 1 crash, done") {
		t.Errorf("wrong: %q\n%s", v.wrong, &out)
	}
}

func TestVerdictFindsEachFault(t *testing.T) {
	order := func(id string, change func(*end)) func(map[string]end) {
		return func(ends map[string]end) {
			e := ends[id]
			change(&e)
			ends[id] = e
		}
	}
	tests := []struct {
		name  string
		spoil func(map[string]end)
		about string
	}{
		{"an order is left", nil, "1 order left"},
		{"no dead letter", order("order-07", func(e *end) { e.Dead = "" }), "order-07"},
		{"dead-lettered twice", order("order-07", func(e *end) { e.Dead += "rejected" }), "order-07"},
		{"the wrong one", order("order-08", func(e *end) { e.Dead = "rejected" }), "order-08"},
		{"by a limit of the broker's", order("order-07", func(e *end) { e.Dead = "delivery_limit" }), "order-07"},
		{"lost", func(ends map[string]end) { delete(ends, "order-01") }, "order-01"},
		{"handled twice", order("order-01", func(e *end) { e.Handled = 2 }), "order-01"},
		{"the poison was handled", order("order-07", func(e *end) { e.Handled = 1 }), "order-07"},
		{"one attempt too few", order("order-07", func(e *end) { e.Attempts = 3 }), "order-07"},
		{"one attempt too many", order("order-19", func(e *end) { e.Attempts = 2 }), "order-19"},
		{"a foreign order", order("order-99", func(e *end) { e.Attempts = 1 }), "order-99"},
		{"a crash is counted for a neighbour", order("order-13", func(e *end) { e.Counted = "1 crash" }), "order-13"},
		{"a failure is counted as a crash", order("order-07", func(e *end) {
			e.Counted = "3 failures, 1 crash, dead-lettered"
		}), "order-07"},
		{"the flaky one is forgotten", order("order-04", func(e *end) { e.Counted = "" }), "order-04"},
		{"the killer is not found", order("order-12", func(e *end) { e.Counted = "" }), "order-12"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ends, left := goodEnds(), 1
			if tt.spoil != nil {
				tt.spoil(ends)
				left = 0
			}
			v := judge(demoOrders(), ends, left)
			if len(v.wrong) != 1 || !strings.HasPrefix(v.wrong[0], tt.about) {
				t.Errorf("wrong: %q, want one about %q", v.wrong, tt.about)
			}
			var out strings.Builder
			v.print(&out, demoOrders(), time.Second)
			if !strings.Contains(out.String(), "WRONG "+tt.about) || strings.Contains(out.String(), "none lost") {
				t.Errorf("printed:\n%s", &out)
			}
		})
	}
}
