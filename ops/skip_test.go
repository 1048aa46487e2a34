package ops

import (
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// TestSkipOfAMovedMessage: its plan says when it returns from a delay queue.
func TestSkipOfAMovedMessage(t *testing.T) {
	q, c := queueAt(t)
	for id, delay := range map[string]counter.Delay{
		"held":  {},
		"moved": {Above: time.Minute, Lease: time.Minute, Body: "1f"},
	} {
		a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: id}, Token: "a", Delay: delay}
		reply, err := c.Fail(t.Context(), a, counter.Failure{Limit: 4, Wait: time.Hour, Reason: "slow"})
		need(t, err)
		made, err := ChangeOf(VerbSkip).Plan(t.Context(), q, Ask{ID: id})
		plan, ok := made.(*Skip)
		if err != nil || !ok {
			t.Fatal(made, err)
		}
		if moved := reply.CopyNumber > 0; moved != (id == "moved") || moved != (time.Until(plan.Due) > 59*time.Minute) {
			t.Errorf("%s: copy number %d, due %v", id, reply.CopyNumber, plan.Due)
		}
	}
}
