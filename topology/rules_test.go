package topology

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sound returns facts that no rule finds fault with: a quorum queue as Declare
// makes it, seen through the management API.
func sound() facts {
	s := Spec{Queue: "q", SingleActiveConsumer: true}.withDefaults()
	return facts{
		product: "RabbitMQ", version: version{4, 3}, queue: "q",
		declared:    declared{kind: "quorum", durable: true, args: s.arguments()},
		policy:      amqp.Table{},
		policyKnown: true,
		way: way{
			exchange: yes, kind: "fanout", bound: true,
			bindings: []apiBinding{{Destination: "q.dlq", DestinationType: "queue"}},
		},
	}
}

func classic(f *facts) {
	f.kind = "classic"
	f.args = amqp.Table{argType: "classic", argDeadLetterExchange: "q.dlx", argSingleActive: true}
}

func overAMQP(f *facts) { f.policy, f.policyKnown, f.way = nil, false, way{exchange: yes} }

func without(args ...string) func(*facts) {
	return func(f *facts) {
		for _, a := range args {
			delete(f.args, a)
		}
	}
}

func with(name string, v any) func(*facts) { return func(f *facts) { f.args[name] = v } }

func policy(name string, v any) func(*facts) { return func(f *facts) { f.policy[name] = v } }

func on(major, minor int) func(*facts) { return func(f *facts) { f.version = version{major, minor} } }

func bound(kind string, bindings ...apiBinding) func(*facts) {
	return func(f *facts) { f.way.kind, f.way.bindings = kind, bindings }
}

func changes(c ...func(*facts)) []func(*facts) { return c }

func TestJudge(t *testing.T) {
	limited := Need{Queue: "q", MaxRetries: 3}
	ordered := Need{Queue: "q", MaxRetries: 3, Ordered: true}
	dropping := Need{Queue: "q", MaxRetries: 3, AllowDrop: true}
	tests := []struct {
		name string
		f    []func(*facts)
		need Need
		want string // severities and codes, in order
	}{
		{"quorum as declared", nil, ordered, ""},
		{"quorum as declared on 3.10", changes(on(3, 10)), ordered, ""},
		{"quorum as declared, over AMQP", changes(overAMQP), ordered, "warning bindings-unknown"},
		{"classic as declared", changes(classic), ordered, ""},
		{"classic as declared on 3.10", changes(classic, on(3, 10)), ordered, ""},

		{"no limit on 3.10", changes(on(3, 10), without(argDeliveryLimit)), limited, "error requeue-to-tail"},
		{"no limit on 3.13", changes(on(3, 13), without(argDeliveryLimit)), limited, "error requeue-to-tail"},
		{"no limit on 4.0", changes(on(4, 0), without(argDeliveryLimit)), limited, "warning delivery-limit-tight"},
		{"no limit on 4.3", changes(without(argDeliveryLimit)), limited, "warning delivery-limit-tight"},
		{"no limit on 4.3, many retries", changes(without(argDeliveryLimit)), Need{Queue: "q", MaxRetries: 17}, "error delivery-limit-low"},
		{"no limit on 4.3, the most retries", changes(without(argDeliveryLimit)), Need{Queue: "q", MaxRetries: 16}, "warning delivery-limit-tight"},
		{"limit -1 on 3.10", changes(on(3, 10), with(argDeliveryLimit, int64(-1))), limited, "error requeue-discards"},
		{"limit -1 on 4.0", changes(on(4, 0), with(argDeliveryLimit, int64(-1))), limited, "error requeue-to-tail"},
		{"limit -1 on 4.2", changes(on(4, 2), with(argDeliveryLimit, int64(-1))), limited, "error requeue-to-tail"},
		{"limit -1 on 4.3", changes(with(argDeliveryLimit, int64(-1))), limited, ""},
		{"limit -1 on 5.0", changes(on(5, 0), with(argDeliveryLimit, int64(-1))), limited, ""},
		{"limit 0 on 3.10", changes(on(3, 10), with(argDeliveryLimit, int64(0))), limited, "error delivery-limit-low"},
		{"limit MaxRetries+3", changes(with(argDeliveryLimit, int64(6))), limited, "error delivery-limit-low"},
		{"limit MaxRetries+4", changes(with(argDeliveryLimit, int64(7))), limited, "warning delivery-limit-tight"},
		{"limit MaxRetries+99", changes(with(argDeliveryLimit, int64(102))), limited, "warning delivery-limit-tight"},
		{"limit MaxRetries+100", changes(with(argDeliveryLimit, int64(103))), limited, ""},
		{"negative MaxRetries is none", changes(with(argDeliveryLimit, int64(4))), Need{Queue: "q", MaxRetries: -9}, "warning delivery-limit-tight"},
		{"limit by policy on 3.10", changes(on(3, 10), without(argDeliveryLimit), policy("delivery-limit", int64(500))), limited, ""},
		{"lower limit by policy", changes(policy("delivery-limit", int64(5))), limited, "error delivery-limit-low"},
		{"higher limit by policy", changes(with(argDeliveryLimit, int64(5)), policy("delivery-limit", int64(500))), limited, "error delivery-limit-low"},
		{"limit -1, policy 500 on 4.0", changes(on(4, 0), with(argDeliveryLimit, int64(-1)), policy("delivery-limit", int64(500))), limited, ""},
		{"limit -1, policy 500 on 3.10", changes(on(3, 10), with(argDeliveryLimit, int64(-1)), policy("delivery-limit", int64(500))), limited, "error requeue-discards"},
		{"quorum on an unknown version", changes(on(0, 0)), limited, "warning broker-unmeasured, error requeue-to-tail"},
		{"classic on an unknown version", changes(classic, on(0, 0)), limited, "warning broker-unmeasured"},
		{"RabbitMQ 3.9", changes(on(3, 9)), limited, "warning broker-unmeasured"},
		{"another product", changes(func(f *facts) { f.product = "Hare" }), limited, "warning broker-unmeasured"},
		{"stream", changes(func(f *facts) { f.declared = declared{kind: "stream", durable: true} }), dropping, "error queue-type"},

		{"no exchange", changes(without(argDeadLetterExchange)), limited, "error no-dead-letter-exchange"},
		{"no exchange, allowed", changes(without(argDeadLetterExchange)), dropping, ""},
		{"no exchange seen", changes(overAMQP, without(argDeadLetterExchange)), limited, "error dead-letter-unproven"},
		{"no exchange seen, allowed", changes(overAMQP, without(argDeadLetterExchange)), dropping, ""},
		{"classic, no exchange", changes(classic, without(argDeadLetterExchange)), limited, "error no-dead-letter-exchange"},
		{"exchange by policy", changes(without(argDeadLetterExchange), policy("dead-letter-exchange", "p")), limited, ""},
		{"exchange missing", changes(func(f *facts) { f.way = way{exchange: no} }), limited, "error dead-letter-exchange-missing"},
		{"exchange missing, allowed", changes(func(f *facts) { f.way = way{exchange: no} }), dropping, "warning dead-letter-exchange-missing"},
		{"nothing bound", changes(bound("fanout")), limited, "error dead-letter-unbound"},
		{"nothing bound, allowed", changes(bound("fanout")), dropping, "warning dead-letter-unbound"},
		{"nothing bound, alternate exchange", changes(bound("fanout"), func(f *facts) { f.way.alternate = true }), limited, "warning dead-letter-unbound"},
		{"key bound", changes(with(argDeadLetterKey, "k"), bound("direct", toQueue("d", "k"))), limited, ""},
		{"key not bound", changes(with(argDeadLetterKey, "k"), bound("direct", toQueue("d", "x"))), limited, "error dead-letter-unbound"},
		{"key left open", changes(bound("direct", toQueue("d", "x"))), limited, "warning dead-letter-key-open"},
		{"key with topic exchange", changes(with(argDeadLetterKey, "k"), bound("topic", toQueue("d", "#"))), limited, ""},
		{"to another exchange", changes(bound("fanout", apiBinding{Destination: "q", DestinationType: "exchange"})), limited, ""},
		{"back to itself", changes(bound("fanout", toQueue("q", ""))), limited, "error dead-letter-loop"},
		{"back to itself and on", changes(bound("fanout", toQueue("q", ""), toQueue("d", ""))), limited, "error dead-letter-loop"},
		{"default exchange", changes(with(argDeadLetterExchange, ""), with(argDeadLetterKey, "d"), func(f *facts) { f.way = way{exchange: yes, queue: yes} }), limited, ""},
		{"default exchange, no such queue", changes(with(argDeadLetterExchange, ""), with(argDeadLetterKey, "d"), func(f *facts) { f.way = way{exchange: yes, queue: no} }), limited, "error dead-letter-queue-missing"},
		{"default exchange, no key", changes(with(argDeadLetterExchange, "")), limited, "error dead-letter-loop"},
		{"default exchange, own name", changes(with(argDeadLetterExchange, ""), with(argDeadLetterKey, "q")), limited, "error dead-letter-loop"},
		{"at most once", changes(without(argStrategy)), limited, "warning dead-letter-at-most-once"},
		{"at least once without reject-publish", changes(without(argOverflow)), limited, "warning dead-letter-at-most-once"},
		{"overflow by policy wins", changes(policy("overflow", "drop-head")), limited, "warning dead-letter-at-most-once"},
		{"at most once, allowed", changes(without(argStrategy)), dropping, ""},

		{"not single active", changes(without(argSingleActive)), ordered, "error not-single-active"},
		{"not single active, unordered", changes(without(argSingleActive)), limited, ""},
		{"priorities", changes(classic, with(argMaxPriority, int64(5))), ordered, "error priorities"},
		{"priorities, unordered", changes(classic, with(argMaxPriority, int64(5))), limited, ""},
		{"delayed retry", changes(with(argDelayedRetry, "all")), limited, "warning delayed-retry"},
		{"delayed retry, ordered", changes(with(argDelayedRetry, "all")), ordered, "error delayed-retry"},
		{"delayed retry off", changes(with(argDelayedRetry, "disabled")), ordered, ""},

		{"exclusive", changes(func(f *facts) { *f = facts{product: "RabbitMQ", version: version{4, 3}, exclusive: true} }), dropping, "error exclusive"},
		{"auto-delete", changes(func(f *facts) { f.autoDelete = true }), limited, "warning auto-delete"},
		{"transient", changes(classic, func(f *facts) { f.durable = false }), limited, "warning transient"},
		{"unreadable", changes(func(f *facts) {
			*f = facts{product: "RabbitMQ", version: version{4, 3}, unread: "no permission"}
		}), ordered, "error arguments-unknown"},
		{"management in trouble", changes(overAMQP, func(f *facts) { f.apiTrouble = "401" }), limited, "warning bindings-unknown, warning management-unreachable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := sound()
			for _, change := range tt.f {
				change(&f)
			}
			var got []string
			for _, x := range judge(traced(f), tt.need) {
				got = append(got, x.Severity.String()+" "+x.Code)
				if x.Seen == "" || x.Why == "" || x.Fix == "" {
					t.Errorf("half told: %+v", x)
				}
			}
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
		})
	}
}

// What a reader of a finding has to type must be in it.
func TestFindingsNameWhatTheySaw(t *testing.T) {
	tests := []struct {
		name string
		f    []func(*facts)
		want []string
	}{
		{"exchange missing", changes(func(f *facts) { f.way = way{exchange: no} }), []string{`"q.dlx"`}},
		{"key", changes(with(argDeadLetterKey, "k"), bound("direct", apiBinding{Key: "x"})), []string{`"q.dlx"`, `"k"`, `"x"`}},
		{"limit", changes(with(argDeliveryLimit, int64(5))), []string{
			"is 5, by the queue's argument x-delivery-limit, and leaves room for 1 of 3 retries", "anew with x-delivery-limit=1000",
			"(strikes declare --delivery-limit 1000 --single-active-consumer q)", "a policy only lowers it",
		}},
		{"limit by policy", changes(policy("delivery-limit", int64(2)), func(f *facts) { f.policyName = "all" }), []string{
			`is 2, by policy "all", and leaves no room`, `set delivery-limit=1000 in policy "all"`,
		}},
		{"limit -1", changes(on(4, 0), with(argDeliveryLimit, int64(-1))), []string{"delivery limit -1 on RabbitMQ 4.0", "set delivery-limit=1000 by policy"}},
		{"default limit", changes(without(argDeliveryLimit)), []string{"20", "4.3", "policy"}},
		{"tail", changes(on(3, 10), without(argDeliveryLimit)), []string{"3.10", "x-delivery-limit=1000", "policy"}},
		{"tail, policy not seen", changes(overAMQP, on(3, 10), without(argDeliveryLimit)), []string{"Management"}},
	}
	for _, tt := range tests {
		f := sound()
		for _, change := range tt.f {
			change(&f)
		}
		text := (&RefusedError{Queue: "q", Findings: judge(f, Need{Queue: "q", MaxRetries: 3})}).Error()
		for _, w := range tt.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is not in %s", tt.name, w, text)
			}
		}
	}
}

func TestKeysAreFew(t *testing.T) {
	var many []apiBinding
	for _, k := range []string{"a", "a", "b", "c", "d", "e", "f"} {
		many = append(many, apiBinding{Key: k})
	}
	if got, want := keys(many), `"a", "b", "c", "d", "e", …`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPolicyMayMend(t *testing.T) {
	unlimited := facts{
		product: "RabbitMQ", version: version{3, 10}, queue: "q",
		declared: declared{kind: "quorum", durable: true, args: amqp.Table{}},
	}
	for _, x := range judge(unlimited, Need{Queue: "q"}) {
		if !unlimited.policyMayMend(x) {
			t.Errorf("a policy may mend %s", x.Code)
		}
	}
	tight := Finding{Code: codeLimitTight, Severity: Warning}
	if unlimited.policyMayMend(Finding{Code: "exclusive", Severity: Error}) || unlimited.policyMayMend(tight) {
		t.Error("no policy mends an exclusive queue, and a warning is not waited for")
	}
	if unlimited.vitals = new(vitals); !unlimited.policyMayMend(tight) {
		t.Error("an operator waits for what may turn a warning into none")
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]version{
		"3.10.8": {3, 10}, "4.0.5": {4, 0}, "4.3.6+2.g0a": {4, 3}, "4.1.0-rc.1": {4, 1}, "5.0": {5, 0},
	} {
		if got, ok := parseVersion(in); !ok || got != want {
			t.Errorf("%q: got %v, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "4", "x.1", "4.x", "-4.1"} {
		if got, ok := parseVersion(in); ok {
			t.Errorf("%q: got %v, want none", in, got)
		}
	}
	if v := (version{3, 10}); v.before(3, 9) || !v.before(4, 0) || v.before(3, 10) || !v.before(3, 11) {
		t.Error("3.10 is between 3.9 and 3.11")
	}
}
