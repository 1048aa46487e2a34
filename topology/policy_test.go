package topology

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

func TestPolicyInForce(t *testing.T) {
	p := func(name, pattern string, priority int, keys ...string) apiPolicy {
		out := apiPolicy{Name: name, Pattern: pattern, ApplyTo: "queues", Priority: priority, Definition: amqp.Table{}}
		for _, k := range keys {
			out.Definition[k] = name
		}
		return out
	}
	to := func(what string, p apiPolicy) apiPolicy { p.ApplyTo = what; return p }
	const dlx = "dead-letter-exchange"
	tests := []struct {
		name  string
		all   []apiPolicy
		queue string
		shown string // by the API; "-": nothing yet
		want  string // "?": not known
	}{
		{"none", nil, "q", "-", ""},
		{"one, not shown yet", []apiPolicy{p("a", "^q$", 0, dlx)}, "q", "-", "a"},
		{"one, shown as none", []apiPolicy{p("a", "^q$", 0, dlx)}, "q", "", "a"},
		{"one that is gone", nil, "q", "old", ""},
		{"of another queue", []apiPolicy{p("a", "^r$", 0, dlx)}, "q", "-", ""},
		{"the higher priority", []apiPolicy{p("a", "q", 1, dlx), p("b", "q", 2, dlx), p("c", "q", 0, dlx)}, "q", "a", "b"},
		{"two of the same priority", []apiPolicy{p("a", "q", 1, dlx), p("b", "q", 1, dlx)}, "q", "b", "b"},
		{"two of the same priority, not shown yet", []apiPolicy{p("a", "q", 1, dlx), p("b", "q", 1, dlx)}, "q", "-", "?"},
		{"two of the same priority, shown as neither", []apiPolicy{p("a", "q", 1, dlx), p("b", "q", 1, dlx)}, "q", "", "?"},
		{"a key of another type", []apiPolicy{p("a", "q", 1, dlx, "ha-mode"), p("b", "q", 0, dlx)}, "q", "-", "b"},
		{"a key that is not known", []apiPolicy{p("a", "q", 1, dlx, "new"), p("b", "q", 0, dlx)}, "q", "-", "?"},
		{"a key that is not known, shown", []apiPolicy{p("a", "q", 1, dlx, "new"), p("b", "q", 0, dlx)}, "q", "a", "a"},
		{"a key that is not known, below", []apiPolicy{p("a", "q", 1, dlx), p("b", "q", 0, "new")}, "q", "", "a"},
		{"a pattern that is not Go's", []apiPolicy{p("a", "(?<!r)q", 0, dlx)}, "q", "a", "a"},
		{"a pattern that is not Go's, shown as none", []apiPolicy{p("a", "(?<!r)q", 0, dlx)}, "q", "", ""},
		{"a pattern that is not Go's, not shown yet", []apiPolicy{p("a", "(?<!r)q", 0, dlx)}, "q", "-", "?"},
		{"a name that is not ASCII", []apiPolicy{p("a", "^.$", 0, dlx)}, "é", "", ""},
		{"for another type", []apiPolicy{to("classic_queues", p("a", "q", 0, dlx)), to("exchanges", p("b", "q", 0, dlx))}, "q", "-", ""},
		{"for the type", []apiPolicy{to("quorum_queues", p("a", "q", 0, dlx))}, "q", "-", "a"},
		{"for everything", []apiPolicy{to("all", p("a", "q", 0, dlx))}, "q", "-", "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := apiQueue{Type: "quorum", PolicyName: strings.Trim(tt.shown, "-")}
			if tt.shown != "-" {
				q.Policy = amqp.Table{}
			}
			f := facts{Queue: queueinfo.Queue{Name: tt.queue}}
			policySet{known: true, user: tt.all}.apply(q, &f)
			got := f.PolicyName
			if !f.PolicyKnown {
				got = "?"
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if got != "?" && got != "" && f.Policy[dlx] != got {
				t.Errorf("the policy says %v", f.Policy)
			}
		})
	}
}

// An operator's policy lowers what it limits, and wins else: measured.
func TestPoliciesJoin(t *testing.T) {
	user := amqp.Table{"overflow": "drop-head", "delivery-limit": int64(-1), "max-length": int64(5), "dead-letter-exchange": "x"}
	got := joined(user, amqp.Table{"delivery-limit": int64(7), "max-length": int64(9), "overflow": "reject-publish", "expires": int64(3)})
	want := amqp.Table{"dead-letter-exchange": "x", "delivery-limit": int64(7), "max-length": int64(5), "overflow": "reject-publish", "expires": int64(3)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := joined(amqp.Table{"delivery-limit": int64(50)}, amqp.Table{"delivery-limit": int64(7)}); got["delivery-limit"] != int64(7) {
		t.Errorf("got %v", got)
	}
}

// A policy that takes the place of another says what that said.
func TestSetPolicyKeepsTheRest(t *testing.T) {
	f := examined()
	f.Args = amqp.Table{queueinfo.ArgType: "classic"}
	f.Type = "classic"
	f.policies.user = []apiPolicy{{Name: "strikes.q", Pattern: "^q", ApplyTo: "queues", Priority: 3, Definition: amqp.Table{"max-length": int64(5), "overflow": "reject-publish"}}}
	f.policies.apply(apiQueue{Type: "classic", Policy: amqp.Table{}}, &f) // the API does not show it yet
	line := commands(f)[codeNoDeadLetterExchange]
	for _, want := range []string{`"definition":{"dead-letter-exchange":"q.dlx","max-length":5,"overflow":"reject-publish"}`, `"priority":4`, "/strikes.q.queue'"} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is not in %s", want, line)
		}
	}
	f = examined()
	f.operator = amqp.Table{"delivery-limit": int64(5)}
	f.Policy, f.Args = joined(nil, f.operator), amqp.Table{queueinfo.ArgType: "quorum", queueinfo.ArgDeadLetterExchange: "q.dlx"}
	if line, found := commands(f)[codeLimitLow]; !found || line != "" {
		t.Errorf("an operator's policy undoes %q", line)
	}
}
