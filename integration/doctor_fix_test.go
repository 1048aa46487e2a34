package integration

import (
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
)

// TestDoctorFixes: whatever the doctor can fix is fixed by its plan, and the fix leads to no other error. A policy that
// matches a queue often matches its dead-letter queue too.
func TestDoctorFixes(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	wide := func(definition map[string]any) func(topo, string) {
		return func(b topo, q string) {
			topoAPI(b.t, "PUT", "policies/%2F/"+q, map[string]any{"pattern": "^" + q, "apply-to": "queues",
				"definition": definition})
			b.t.Cleanup(func() { b.forgetPolicy(q) })
			b.queue(q, amqp.Table{"x-queue-type": "quorum"})
		}
	}
	sick := slices.Concat(lost(), limited(b), ended(), []patient{
		{"a policy that lets dead letters expire too", wide(map[string]any{"message-ttl": 60000}), inspect.Need{}, ""},
		{"a policy that sends dead letters on", func(b topo, q string) {
			wide(map[string]any{"dead-letter-exchange": q + ".dlx"})(b, q)
		}, inspect.Need{}, ""},
	})
	fixed := 0
	for _, p := range admit(t, b, sick) {
		if p.want != "" {
			b.settles(p)
		}
		need := p.need
		plan, err := doctor.MakePlan(t.Context(), b.conn, need, "")
		if err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		for _, own := range []string{"strikes." + need.Queue, "strikes." + need.Queue + ".dlq"} {
			t.Cleanup(func() { b.forgetPolicy(own) })
		}
		if len(plan.Steps()) == 0 {
			continue
		}
		fixed++
		left, err := plan.Do(t.Context(), b.conn, need, nil)
		if err != nil || len(left) > 0 {
			t.Errorf("%s: %v, left %v, after %q", p.name, err, left, plan.Steps())
		}
		again, err := doctor.MakePlan(t.Context(), b.conn, need, "")
		if err != nil || len(again.Steps()) > 0 {
			t.Errorf("%s: %v; a second fix would %q after %q", p.name, err, again.Steps(), plan.Steps())
		}
		if codes, found := b.examine(need); strings.Contains(codes, "error") && !slices.ContainsFunc(plan.Fixes,
			leftToAPerson) {
			t.Errorf("%s: still %v", p.name, found)
		}
	}
	if fixed < 12 {
		t.Errorf("only %d could be fixed", fixed)
	}
}

// leftToAPerson reports whether a plan has no step for an error.
func leftToAPerson(f doctor.Fix) bool {
	return f.Finding.Severity == inspect.Error && len(f.Steps) == 0
}
