package broker

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestRequeue(t *testing.T) {
	const none = -2
	versions := []Version{{3, 10}, {4, 0}, {4, 3}, {}}
	for _, tt := range []struct {
		kind  string
		limit int64
		want  [4]Position
	}{
		{Classic, none, [4]Position{PositionOriginal, PositionOriginal, PositionOriginal, PositionOriginal}},
		{Quorum, none, [4]Position{PositionTail, PositionHead, PositionHead, PositionUnknown}},
		{Quorum, 7, [4]Position{PositionHead, PositionHead, PositionHead, PositionUnknown}},
		{Quorum, -1, [4]Position{PositionDiscarded, PositionTail, PositionHead, PositionUnknown}},
		{Stream, none, [4]Position{}},
		{"", none, [4]Position{}},
	} {
		for i, v := range versions {
			q := Queue{Version: v, Declared: Declared{Type: tt.kind, Args: amqp.Table{}}}
			if tt.limit != none {
				q.Args[ArgDeliveryLimit] = tt.limit
			}
			if got := q.Requeue(); got != tt.want[i] {
				t.Errorf("%s queue with limit %d on RabbitMQ %s: position %d, want %d", tt.kind, tt.limit, v, got, tt.want[i])
			}
		}
	}
}

func TestReturnLimit(t *testing.T) {
	for _, tt := range []struct {
		kind        string
		arg, policy any
		version     Version
		want        int64
		limited     bool
	}{
		{Classic, nil, nil, Version{4, 3}, 0, false},
		{Quorum, nil, nil, Version{3, 10}, 0, false},
		{Quorum, nil, nil, Version{4, 0}, brokerDeliveryLimit, true},
		{Quorum, int64(7), nil, Version{3, 10}, 7, true},
		{Quorum, int64(7), int64(3), Version{4, 3}, 3, true},
		{Quorum, int64(7), int64(-1), Version{4, 3}, 7, true},
		{Quorum, int64(7), int64(-1), Version{3, 10}, 0, false},
		{Quorum, int64(-1), nil, Version{4, 3}, 0, false},
	} {
		q := Queue{Version: tt.version, Declared: Declared{Type: tt.kind, Args: amqp.Table{ArgDeliveryLimit: tt.arg}},
			Policy: amqp.Table{"delivery-limit": tt.policy}}
		if got, limited := q.ReturnLimit(); got != tt.want || limited != tt.limited {
			t.Errorf("%+v: %d, %v", tt, got, limited)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]Version{
		"3.10.8": {3, 10}, "4.0.5": {4, 0}, "4.3.6+2.g0a": {4, 3}, "4.1.0-rc.1": {4, 1}, "5.0": {5, 0},
	} {
		if got, ok := ParseVersion(in); !ok || got != want {
			t.Errorf("%q: got %v, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "4", "x.1", "4.x", "-4.1"} {
		if got, ok := ParseVersion(in); ok {
			t.Errorf("%q: got %v, want none", in, got)
		}
	}
	if v := (Version{3, 10}); v.Before(3, 9) || !v.Before(4, 0) || v.Before(3, 10) || !v.Before(3, 11) {
		t.Error("3.10 is between 3.9 and 3.11")
	}
}

func TestPolicyInForce(t *testing.T) {
	p := func(name, pattern string, priority int, keys ...string) Policy {
		out := Policy{Name: name, Pattern: pattern, ApplyTo: "queues", Priority: priority, Definition: Table{}}
		for _, k := range keys {
			out.Definition[k] = name
		}
		return out
	}
	to := func(what string, p Policy) Policy { p.ApplyTo = what; return p }
	const dlx = "dead-letter-exchange"
	tests := []struct {
		name  string
		all   []Policy
		queue string
		shown string // by the API; "-": nothing yet
		want  string // "?": not known
	}{
		{"none", nil, "q", "-", ""},
		{"one, not shown yet", []Policy{p("a", "^q$", 0, dlx)}, "q", "-", "a"},
		{"one, shown as none", []Policy{p("a", "^q$", 0, dlx)}, "q", "", "a"},
		{"one that is gone", nil, "q", "old", ""},
		{"of another queue", []Policy{p("a", "^r$", 0, dlx)}, "q", "-", ""},
		{"the higher priority", []Policy{p("a", "q", 1, dlx), p("b", "q", 2, dlx), p("c", "q", 0, dlx)}, "q", "a", "b"},
		{"two of the same priority", []Policy{p("a", "q", 1, dlx), p("b", "q", 1, dlx)}, "q", "b", "b"},
		{"two of the same priority, not shown yet", []Policy{p("a", "q", 1, dlx), p("b", "q", 1, dlx)}, "q", "-", "?"},
		{"two of the same priority, shown as neither", []Policy{p("a", "q", 1, dlx), p("b", "q", 1, dlx)}, "q", "", "?"},
		{"a key of another type", []Policy{p("a", "q", 1, dlx, "ha-mode"), p("b", "q", 0, dlx)}, "q", "-", "b"},
		{"a key that is not known", []Policy{p("a", "q", 1, dlx, "new"), p("b", "q", 0, dlx)}, "q", "-", "?"},
		{"a key that is not known, shown", []Policy{p("a", "q", 1, dlx, "new"), p("b", "q", 0, dlx)}, "q", "a", "a"},
		{"a key that is not known, below", []Policy{p("a", "q", 1, dlx), p("b", "q", 0, "new")}, "q", "", "a"},
		{"a pattern that is not Go's", []Policy{p("a", "(?<!r)q", 0, dlx)}, "q", "a", "a"},
		{"a pattern that is not Go's, shown as none", []Policy{p("a", "(?<!r)q", 0, dlx)}, "q", "", ""},
		{"a pattern that is not Go's, not shown yet", []Policy{p("a", "(?<!r)q", 0, dlx)}, "q", "-", "?"},
		{"a name that is not ASCII", []Policy{p("a", "^.$", 0, dlx)}, "é", "", ""},
		{"for another type", []Policy{to("classic_queues", p("a", "q", 0, dlx)), to("exchanges", p("b", "q", 0, dlx))}, "q",
			"-", ""},
		{"for the type", []Policy{to("quorum_queues", p("a", "q", 0, dlx))}, "q", "-", "a"},
		{"for everything", []Policy{to("all", p("a", "q", 0, dlx))}, "q", "-", "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := Queue{Name: tt.queue, Declared: Declared{Type: "quorum"}, PolicyName: strings.Trim(tt.shown, "-"),
				PolicyKnown: tt.shown != "-"}
			Policies{User: tt.all}.Apply(&f)
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

// A policy for streams is in force on a stream.
func TestPolicyForStreams(t *testing.T) {
	q := Queue{Name: "log", Declared: Declared{Type: Stream}, PolicyName: "a", PolicyKnown: true}
	Policies{User: []Policy{{Name: "a", Pattern: "log", ApplyTo: "streams",
		Definition: Table{"max-length-bytes": int64(9)}}}}.Apply(&q)
	if !q.Limited() {
		t.Errorf("the policy says %v", q.Policy)
	}
}

// An operator's policy lowers the limits of a user's policy, and overrides its other keys: measured.
func TestPoliciesJoin(t *testing.T) {
	user := amqp.Table{"overflow": "drop-head", "delivery-limit": int64(-1), "max-length": int64(5),
		"dead-letter-exchange": "x"}
	got := JoinPolicies(user, amqp.Table{"delivery-limit": int64(7), "max-length": int64(9), "overflow": "reject-publish",
		"expires": int64(3)})
	want := amqp.Table{"dead-letter-exchange": "x", "delivery-limit": int64(7), "max-length": int64(5),
		"overflow": "reject-publish", "expires": int64(3)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := JoinPolicies(amqp.Table{"delivery-limit": int64(50)},
		amqp.Table{"delivery-limit": int64(7)}); got["delivery-limit"] != int64(7) {
		t.Errorf("got %v", got)
	}
}
