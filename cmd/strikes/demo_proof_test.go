package main

import (
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
)

// goodEvidence is the evidence of a demo that went well.
func goodEvidence() evidence {
	return evidence{acked: 19, dead: []string{"order-07 rejected from q"}, counted: []string{
		"order-07 dead-lettered, 4 failures, 0 crashes", "order-04 done, 2 failures, 0 crashes",
		"order-12 done, 0 failures, 1 crash",
	}}
}

func TestProof(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(e *evidence)
		wrong string // the check that is printed as wrong; empty: none
	}{
		{"all is well", func(*evidence) {}, ""},
		{"an order is left", func(e *evidence) { e.left = 1 }, "orders still in the queue"},
		{"no dead letter", func(e *evidence) { e.dead = nil }, "orders in the dead-letter queue"},
		{"dead-lettered twice", func(e *evidence) {
			e.dead = append(e.dead, e.dead[0])
		}, "orders in the dead-letter queue"},
		{"the wrong one", func(e *evidence) { e.dead[0] = "order-08 rejected from q" }, "orders in the dead-letter queue"},
		{"by a limit of the broker's", func(e *evidence) {
			e.dead[0] = "order-07 delivery_limit from q"
		}, "orders in the dead-letter queue"},
		{"lost", func(e *evidence) { e.acked = 18 }, "orders handled to the end"},
		{"the poison was handled", func(e *evidence) { e.acked = 20 }, "orders handled to the end"},
		{"one attempt too few", func(e *evidence) {
			e.counted[0] = "order-07 dead-lettered, 3 failures, 0 crashes"
		}, "counts"},
		{"a crash is counted for a neighbour", func(e *evidence) {
			e.counted = append(e.counted, "order-13 done, 0 failures, 1 crash")
		}, "counts"},
		{"a failure is counted as a crash", func(e *evidence) {
			e.counted[0] = "order-07 dead-lettered, 3 failures, 1 crash"
		}, "counts"},
		{"the flaky one is forgotten", func(e *evidence) { e.counted = e.counted[:1:1] }, "counts"},
		{"the killer is not found", func(e *evidence) { e.counted = e.counted[:2] }, "counts"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := goodEvidence()
			tt.spoil(&e)
			var out strings.Builder
			d := demo{Streams: cli.Streams{Out: &out}, queue: "q", orders: demoOrders()}
			right := d.prove(e, time.Second)
			wrong := 1
			if tt.wrong == "" {
				wrong = 0
			}
			if right != (tt.wrong == "") || strings.Count(out.String(), "WRONG ") != wrong ||
				!strings.Contains(out.String(), "WRONG "+tt.wrong) && !right ||
				strings.Contains(out.String(), "none lost") != right {
				t.Errorf("right %v:\n%s", right, &out)
			}
		})
	}
}
