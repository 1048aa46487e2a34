package inspect

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/internal/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sound returns Facts that no rule finds fault with: a quorum queue as package topology
// declares it, seen through the management API.
func sound() Facts {
	return Facts{
		Product: "RabbitMQ",
		Description: broker.Description{Queue: broker.Queue{
			Version: broker.Version{Major: 4, Minor: 3}, Name: "q", Policy: amqp.Table{}, PolicyKnown: true,
			Declared: broker.Declared{Type: "quorum", Durable: true, Args: amqp.Table{
				broker.ArgType: "quorum", broker.ArgDeadLetterExchange: "q.dlx", broker.ArgSingleActive: true,
				broker.ArgDeliveryLimit: int64(1000), broker.ArgStrategy: "at-least-once",
				broker.ArgOverflow: "reject-publish",
			}},
		}},
		Exchange: Exchange{
			Exists: broker.Yes, Kind: "fanout", Bound: true,
			Bindings: []broker.Binding{{Destination: "q.dlq", DestinationType: "queue"}},
		},
	}
}

func classic(f *Facts) {
	f.Type = "classic"
	f.Args = amqp.Table{broker.ArgType: "classic", broker.ArgDeadLetterExchange: "q.dlx",
		broker.ArgSingleActive: true}
}

func overAMQP(f *Facts) {
	f.Policy, f.PolicyKnown, f.Exchange = nil, false, Exchange{Exists: broker.Yes}
}

func without(args ...string) func(*Facts) {
	return func(f *Facts) {
		for _, a := range args {
			delete(f.Args, a)
		}
	}
}

func with(name string, v any) func(*Facts) { return func(f *Facts) { f.Args[name] = v } }

func policy(name string, v any) func(*Facts) { return func(f *Facts) { f.Policy[name] = v } }

func on(major, minor int) func(*Facts) {
	return func(f *Facts) { f.Version = broker.Version{Major: major, Minor: minor} }
}

func bound(kind string, bindings ...broker.Binding) func(*Facts) {
	return func(f *Facts) { f.Exchange.Kind, f.Exchange.Bindings = kind, bindings }
}

// away makes queues known whose nodes are down.
func away(names ...string) func(*Facts) {
	return func(f *Facts) {
		for _, name := range names {
			keeps(name)(f)
			f.Known.Queues[name].Away = true
		}
	}
}

func changes(c ...func(*Facts)) []func(*Facts) { return c }

func changed(f Facts, changes []func(*Facts)) Facts {
	for _, change := range changes {
		change(&f)
	}
	return f
}

// judged returns the severities and codes of the findings, in order.
func judged(t *testing.T, rules []Rule, f Facts, need Need) string {
	t.Helper()
	var all []string
	for _, x := range Judge(rules, f, need) {
		all = append(all, x.Severity.String()+" "+x.Code)
		if x.Seen == "" || x.Impact == "" || x.Fix == "" {
			t.Errorf("incomplete: %+v", x)
		}
	}
	return strings.Join(all, ", ")
}

func TestJudge(t *testing.T) {
	const awayError, awayWarning = "error dead-letter-queue-node-down", "warning dead-letter-queue-node-down"
	limited := Need{Queue: "q", MaxRetries: 3}
	ordered := Need{Queue: "q", MaxRetries: 3, Ordered: true}
	holding := Need{Queue: "q", MaxRetries: 3, Ordered: true, HoldQueue: true}
	dropping := Need{Queue: "q", MaxRetries: 3, AllowDrop: true}
	tests := []struct {
		name string
		f    []func(*Facts)
		need Need
		want string // severities and codes, in order
	}{
		{"quorum as declared", nil, ordered, ""},
		{"quorum as declared on 3.10", changes(on(3, 10)), ordered, ""},
		{"quorum as declared, over AMQP", changes(overAMQP), ordered, "warning bindings-unknown"},
		{"classic as declared", changes(classic), ordered, ""},
		{"classic as declared on 3.10", changes(classic, on(3, 10)), ordered, ""},

		{"no limit on 3.10", changes(on(3, 10), without(broker.ArgDeliveryLimit)), limited, "error requeue-to-tail"},
		{"no limit on 3.13", changes(on(3, 13), without(broker.ArgDeliveryLimit)), limited, "error requeue-to-tail"},
		{"no limit on 4.0", changes(on(4, 0), without(broker.ArgDeliveryLimit)), limited, "warning delivery-limit-tight"},
		{"no limit on 4.3", changes(without(broker.ArgDeliveryLimit)), limited, "warning delivery-limit-tight"},
		{"no limit on 4.3, many retries", changes(without(broker.ArgDeliveryLimit)), Need{Queue: "q", MaxRetries: 17},
			"error delivery-limit-low"},
		{"no limit on 4.3, the most retries", changes(without(broker.ArgDeliveryLimit)), Need{Queue: "q", MaxRetries: 16},
			"warning delivery-limit-tight"},
		{"limit -1 on 3.10", changes(on(3, 10), with(broker.ArgDeliveryLimit, int64(-1))), limited,
			"error requeue-discards"},
		{"limit -1 on 4.0", changes(on(4, 0), with(broker.ArgDeliveryLimit, int64(-1))), limited, "error requeue-to-tail"},
		{"limit -1 on 4.2", changes(on(4, 2), with(broker.ArgDeliveryLimit, int64(-1))), limited, "error requeue-to-tail"},
		{"limit -1 on 4.3", changes(with(broker.ArgDeliveryLimit, int64(-1))), limited, ""},
		{"limit -1 on 5.0", changes(on(5, 0), with(broker.ArgDeliveryLimit, int64(-1))), limited, ""},
		{"limit 0 on 3.10", changes(on(3, 10), with(broker.ArgDeliveryLimit, int64(0))), limited,
			"error delivery-limit-low"},
		{"limit MaxRetries+3", changes(with(broker.ArgDeliveryLimit, int64(6))), limited, "error delivery-limit-low"},
		{"limit MaxRetries+4", changes(with(broker.ArgDeliveryLimit, int64(7))), limited, "warning delivery-limit-tight"},
		{"limit MaxRetries+99", changes(with(broker.ArgDeliveryLimit, int64(102))), limited,
			"warning delivery-limit-tight"},
		{"limit MaxRetries+100", changes(with(broker.ArgDeliveryLimit, int64(103))), limited, ""},
		{"negative MaxRetries is none", changes(with(broker.ArgDeliveryLimit, int64(4))), Need{Queue: "q", MaxRetries: -9},
			"warning delivery-limit-tight"},
		{"limit by policy on 3.10", changes(on(3, 10), without(broker.ArgDeliveryLimit),
			policy("delivery-limit", int64(500))), limited, ""},
		{"lower limit by policy", changes(policy("delivery-limit", int64(5))), limited, "error delivery-limit-low"},
		{"higher limit by policy", changes(with(broker.ArgDeliveryLimit, int64(5)), policy("delivery-limit", int64(500))),
			limited, "error delivery-limit-low"},
		{"limit -1, policy 500 on 4.0", changes(on(4, 0), with(broker.ArgDeliveryLimit, int64(-1)),
			policy("delivery-limit", int64(500))), limited, ""},
		{"limit -1, policy 500 on 3.10", changes(on(3, 10), with(broker.ArgDeliveryLimit, int64(-1)),
			policy("delivery-limit", int64(500))), limited, "error requeue-discards"},
		{"quorum on an unknown version", changes(on(0, 0)), limited, "warning broker-unmeasured, error requeue-to-tail"},
		{"classic on an unknown version", changes(classic, on(0, 0)), limited, "warning broker-unmeasured"},
		{"RabbitMQ 3.9", changes(on(3, 9)), limited, "warning broker-unmeasured"},
		{"another product", changes(func(f *Facts) { f.Product = "Hare" }), limited, "warning broker-unmeasured"},
		{"stream", changes(func(f *Facts) {
			f.Declared = broker.Declared{Type: "stream", Durable: true}
		}), dropping, "error queue-type"},

		{"no exchange", changes(without(broker.ArgDeadLetterExchange)), limited, "error no-dead-letter-exchange"},
		{"no exchange, allowed", changes(without(broker.ArgDeadLetterExchange)), dropping, ""},
		{"no exchange seen", changes(overAMQP, without(broker.ArgDeadLetterExchange)), limited,
			"error dead-letter-unproven"},
		{"no exchange seen, allowed", changes(overAMQP, without(broker.ArgDeadLetterExchange)), dropping, ""},
		{"classic, no exchange", changes(classic, without(broker.ArgDeadLetterExchange)), limited,
			"error no-dead-letter-exchange"},
		{"exchange by policy", changes(without(broker.ArgDeadLetterExchange), policy("dead-letter-exchange", "p")),
			limited, ""},
		{"exchange missing", changes(func(f *Facts) {
			f.Exchange = Exchange{Exists: broker.No}
		}), limited, "error dead-letter-exchange-missing"},
		{"exchange missing, allowed", changes(func(f *Facts) {
			f.Exchange = Exchange{Exists: broker.No}
		}), dropping, "warning dead-letter-exchange-missing"},
		{"nothing bound", changes(bound("fanout")), limited, "error dead-letter-unbound"},
		{"nothing bound, allowed", changes(bound("fanout")), dropping, "warning dead-letter-unbound"},
		{"nothing bound, alternate exchange", changes(bound("fanout"), func(f *Facts) {
			f.Exchange.Alternate = "x"
		}), limited, "warning dead-letter-unbound"},
		{"key bound", changes(with(broker.ArgDeadLetterKey, "k"), bound("direct", toQueue("d", "k"))), limited, ""},
		{"key not bound", changes(with(broker.ArgDeadLetterKey, "k"), bound("direct", toQueue("d", "x"))), limited,
			"error dead-letter-unbound"},
		{"key left open", changes(bound("direct", toQueue("d", "x"))), limited, "warning dead-letter-key-open"},
		{"key with topic exchange", changes(with(broker.ArgDeadLetterKey, "k"), bound("topic", toQueue("d", "#"))),
			limited, ""},
		{"to another exchange", changes(bound("fanout", broker.Binding{Destination: "q", DestinationType: "exchange"})),
			limited, ""},
		{"back to itself", changes(bound("fanout", toQueue("q", ""))), limited, "error dead-letter-loop"},
		{"back to itself and on", changes(bound("fanout", toQueue("q", ""), toQueue("d", ""))), limited,
			"error dead-letter-loop"},
		{"default exchange", changes(with(broker.ArgDeadLetterExchange, ""), with(broker.ArgDeadLetterKey, "d"),
			func(f *Facts) {
				f.Exchange = Exchange{Exists: broker.Yes}
			}), limited, ""},
		{"default exchange, no such queue", changes(with(broker.ArgDeadLetterExchange, ""),
			with(broker.ArgDeadLetterKey, "d"), func(f *Facts) {
				f.Exchange = Exchange{Exists: broker.Yes}
				f.knows().Queues["d"] = nil
			}), limited, "error dead-letter-queue-missing"},
		{"default exchange, no key", changes(with(broker.ArgDeadLetterExchange, "")), limited, "error dead-letter-loop"},
		{"default exchange, own name", changes(with(broker.ArgDeadLetterExchange, ""), with(broker.ArgDeadLetterKey,
			"q")), limited, "error dead-letter-loop"},
		{"node down", changes(func(f *Facts) { f.Away = true }), limited, "error queue-node-down"},
		{"node of the dead-letter queue down", changes(classic, away("q.dlq")), limited, awayError},
		{"node of the dead-letter queue down, allowed", changes(classic, away("q.dlq")), dropping, awayWarning},
		{"node of the dead-letter queue down, at least once", changes(away("q.dlq")), limited, awayWarning},
		{"node of the queue behind the default exchange down", changes(classic, with(broker.ArgDeadLetterExchange, ""),
			with(broker.ArgDeadLetterKey, "d"), away("d"), func(f *Facts) { f.Exchange = Exchange{Exists: broker.Yes} }),
			limited, awayError},
		{"nodes of both dead-letter queues down", changes(classic, bound("fanout", toQueue("a", ""), toQueue("b", "")),
			away("a", "b")), limited, awayError + ", " + awayError},
		{"node of one dead-letter queue down", changes(classic, bound("fanout", toQueue("a", ""), toQueue("b", "")),
			away("a")), limited, awayWarning},
		{"node of the queue of some dead letters down", changes(classic, bound("topic", toQueue("all", "#"),
			toQueue("some", "eu")), away("some")), limited, awayWarning},
		{"node of the queue of all dead letters down", changes(classic, bound("topic", toQueue("all", "#"),
			toQueue("some", "eu")), away("all")), limited, awayError},
		{"node of the queue of other dead letters down", changes(classic, bound("topic", toQueue("us", "us"),
			toQueue("eu", "eu")), away("us")), limited, "warning dead-letter-key-open, " + awayWarning},
		{"node down behind a delay", changes(classic, keeps("q.dlq", broker.ArgTTL, int64(9), broker.ArgDeadLetterExchange,
			"", broker.ArgDeadLetterKey, "d"), away("d")), limited, awayError},
		{"node down behind a queue", changes(classic, keeps("q.dlq", broker.ArgDeadLetterExchange, "",
			broker.ArgDeadLetterKey, "d"), away("d")), limited, awayWarning},
		{"at most once", changes(without(broker.ArgStrategy)), limited, "warning dead-letter-at-most-once"},
		{"at least once without reject-publish", changes(without(broker.ArgOverflow)), limited,
			"warning dead-letter-at-most-once"},
		{"overflow by policy wins", changes(policy("overflow", "drop-head")), limited, "warning dead-letter-at-most-once"},
		{"at most once, allowed", changes(without(broker.ArgStrategy)), dropping, ""},

		{"not single active", changes(without(broker.ArgSingleActive)), ordered, "error not-single-active"},
		{"not single active, unordered", changes(without(broker.ArgSingleActive)), limited, ""},
		{"priorities", changes(classic, with(broker.ArgMaxPriority, int64(5))), ordered, "error priorities"},
		{"priorities, unordered", changes(classic, with(broker.ArgMaxPriority, int64(5))), limited, ""},
		{"delayed retry", changes(with(broker.ArgDelayedRetry, "all")), limited, "warning delayed-retry"},
		{"delayed retry, ordered", changes(with(broker.ArgDelayedRetry, "all")), ordered, "error delayed-retry"},
		{"delayed retry off", changes(with(broker.ArgDelayedRetry, "disabled")), ordered, ""},

		{"exclusive", changes(func(f *Facts) {
			*f = Facts{Product: "RabbitMQ", Description: broker.Description{
				Queue: broker.Queue{Version: broker.Version{Major: 4, Minor: 3}, Exclusive: true}}}
		}), dropping, "error exclusive"},
		{"auto-delete", changes(func(f *Facts) { f.AutoDelete = true }), limited, "warning auto-delete"},
		{"auto-delete, held", changes(func(f *Facts) { f.AutoDelete = true }), holding, "error auto-delete"},
		{"expires, held", changes(with("x-expires", int64(9))), holding, "error expires"},
		{"transient", changes(classic, func(f *Facts) { f.Durable = false }), limited, "warning transient"},
		{"unreadable", changes(func(f *Facts) {
			*f = Facts{Product: "RabbitMQ", Description: broker.Description{
				Queue: broker.Queue{Version: broker.Version{Major: 4, Minor: 3}, Unread: "no permission"}}}
		}), ordered, "error arguments-unknown"},
		{"management in trouble", changes(overAMQP, func(f *Facts) {
			f.Trouble = "401"
		}), limited, "warning bindings-unknown, warning management-unreachable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := judged(t, All, traced(changed(sound(), tt.f)), tt.need); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// What a reader of a finding has to type must be in it.
func TestFindingsNameWhatTheySaw(t *testing.T) {
	tests := []struct {
		name string
		f    []func(*Facts)
		want []string
	}{
		{"exchange missing", changes(func(f *Facts) { f.Exchange = Exchange{Exists: broker.No} }), []string{`"q.dlx"`}},
		{"key", changes(with(broker.ArgDeadLetterKey, "k"), bound("direct", broker.Binding{Key: "x"})),
			[]string{`"q.dlx"`, `"k"`, `"x"`}},
		{"limit", changes(with(broker.ArgDeliveryLimit, int64(5))), []string{
			"is 5, by the queue's argument x-delivery-limit, and allows 1 of 3 retries", "again with x-delivery-limit=1000",
			"a policy only lowers it",
		}},
		{"limit by policy", changes(policy("delivery-limit", int64(2)), func(f *Facts) { f.PolicyName = "all" }), []string{
			`is 2, by policy "all", and allows no retries`, `set delivery-limit=1000 in policy "all"`,
		}},
		{"limit -1", changes(on(4, 0), with(broker.ArgDeliveryLimit, int64(-1))),
			[]string{"delivery limit -1 on RabbitMQ 4.0", "set delivery-limit=1000 by policy"}},
		{"default limit", changes(without(broker.ArgDeliveryLimit)), []string{"20", "4.3", "policy"}},
		{"tail", changes(on(3, 10), without(broker.ArgDeliveryLimit)), []string{"3.10", "x-delivery-limit=1000",
			"policy"}},
		{"tail, policy not seen", changes(overAMQP, on(3, 10), without(broker.ArgDeliveryLimit)),
			[]string{"give the URL of the management API (Check.Management)"}},
	}
	for _, tt := range tests {
		text := fmt.Sprint(Judge(All, changed(sound(), tt.f), Need{Queue: "q", MaxRetries: 3}))
		if strings.Contains(text, "--") {
			t.Errorf("%s: the library's users have no flags: %s", tt.name, text)
		}
		for _, w := range tt.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is not in %s", tt.name, w, text)
			}
		}
	}
}

func TestKeysAreFew(t *testing.T) {
	var many []broker.Binding
	for _, k := range []string{"a", "a", "b", "c", "d", "e", "f"} {
		many = append(many, broker.Binding{Key: k})
	}
	if got, want := keys(many), `"a", "b", "c", "d", "e", …`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPolicyMayFix(t *testing.T) {
	unlimited := Facts{Product: "RabbitMQ", Description: broker.Description{Queue: broker.Queue{
		Version: broker.Version{Major: 3, Minor: 10}, Name: "q", Declared: broker.Declared{Type: "quorum",
			Durable: true, Args: amqp.Table{}},
	}}}
	need := Need{Queue: "q", Management: "http://h"}
	waits := func(x Finding) bool {
		return unlimited.undecided([]Rule{func(_ Facts, _ Need, report func(Finding)) { report(x) }}, need)
	}
	for _, x := range Judge(All, unlimited, need) {
		if !waits(x) {
			t.Errorf("a policy may fix %s", x.Code)
		}
	}
	tight := Finding{Code: CodeLimitTight, Severity: Warning}
	if waits(Finding{Code: "exclusive", Severity: Error}) || waits(tight) {
		t.Error("no policy fixes an exclusive queue, and a warning is not waited for")
	}
	if need.Closely = true; !waits(tight) {
		t.Error("an operator waits for what may turn a warning into none")
	}
}
