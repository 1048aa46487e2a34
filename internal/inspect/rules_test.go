package inspect

import (
	"fmt"
	"math"
	"strconv"
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
		Route: Route{Landings: []Landing{{Name: "q.dlq"}}},
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

// set changes a queue by words: "3.10" is its version, "x-max-length=5" an argument, "-x-overflow" an argument that it
// does not have, and "policy:expires=5" a key of its policy. It may also be "transient" or "auto-delete".
func set(q *broker.Queue, words string) {
	for word := range strings.FieldsSeq(words) {
		key, text, sets := strings.Cut(word, "=")
		var value any = text
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			value = n
		} else if on, err := strconv.ParseBool(text); err == nil {
			value = on
		}
		arg, lacks := strings.CutPrefix(key, "-")
		inPolicy, byPolicy := strings.CutPrefix(key, "policy:")
		switch {
		case lacks:
			delete(q.Args, arg)
		case byPolicy:
			q.Policy[inPolicy] = value
		case sets:
			q.Args[key] = value
		case word == "transient":
			q.Durable = false
		case word == "auto-delete":
			q.AutoDelete = true
		default:
			if _, err := fmt.Sscanf(word, "%d.%d", &q.Version.Major, &q.Version.Minor); err != nil {
				panic("no such word: " + word)
			}
		}
	}
}

// lettersTo are the words for a queue whose dead letters go to another one through the default exchange.
func lettersTo(queue string) string {
	return "x-dead-letter-exchange= x-dead-letter-routing-key=" + queue
}

func noExchange(f *Facts) { f.Exchange = Exchange{Exists: broker.No} }

// byDefault has dead letters go to the queue d through the default exchange.
func byDefault(f *Facts) {
	set(&f.Queue, lettersTo("d"))
	f.Exchange = Exchange{Exists: broker.Yes}
}

func bound(kind string, bindings ...broker.Binding) func(*Facts) {
	return func(f *Facts) { f.Exchange.Kind, f.Exchange.Bindings = kind, bindings }
}

// alternate gives the dead-letter exchange the alternate exchange x.
func alternate(kind string, bindings ...broker.Binding) func(*Facts) {
	return func(f *Facts) {
		f.Exchange.Alternate = "x"
		exchange("x", kind, bindings...)(f)
	}
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

// changes are functions, and words that set the queue.
func changes(of ...any) (all []func(*Facts)) {
	for _, c := range of {
		switch c := c.(type) {
		case string:
			all = append(all, func(f *Facts) { set(&f.Queue, c) })
		case func(*Facts):
			all = append(all, c)
		default:
			panic(fmt.Sprintf("a change of type %T", c))
		}
	}
	return all
}

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
		{"quorum as declared on 3.10", changes("3.10"), ordered, ""},
		{"quorum as declared, over AMQP", changes(overAMQP), ordered, "warning bindings-unknown"},
		{"classic as declared", changes(classic), ordered, ""},
		{"classic as declared on 3.10", changes(classic, "3.10"), ordered, ""},

		{"no limit on 3.10", changes("3.10 -x-delivery-limit"), limited, "error requeue-to-tail"},
		{"no limit on 3.13", changes("3.13 -x-delivery-limit"), limited, "error requeue-to-tail"},
		{"no limit on 4.0", changes("4.0 -x-delivery-limit"), limited, "warning delivery-limit-tight"},
		{"no limit on 4.3", changes("-x-delivery-limit"), limited, "warning delivery-limit-tight"},
		{"no limit on 4.3, many retries", changes("-x-delivery-limit"), Need{Queue: "q", MaxRetries: 17},
			"error delivery-limit-low"},
		{"no limit on 4.3, the most retries", changes("-x-delivery-limit"), Need{Queue: "q", MaxRetries: 16},
			"warning delivery-limit-tight"},
		{"limit -1 on 3.10", changes("3.10 x-delivery-limit=-1"), limited, "error requeue-discards"},
		{"limit -1 on 4.0", changes("4.0 x-delivery-limit=-1"), limited, "error requeue-to-tail"},
		{"limit -1 on 4.2", changes("4.2 x-delivery-limit=-1"), limited, "error requeue-to-tail"},
		{"limit -1 on 4.3", changes("x-delivery-limit=-1"), limited, ""},
		{"limit -1 on 5.0", changes("5.0 x-delivery-limit=-1"), limited, ""},
		{"limit 0 on 3.10", changes("3.10 x-delivery-limit=0"), limited, "error delivery-limit-low"},
		{"the most retries", changes("x-delivery-limit=1000"), Need{Queue: "q", MaxRetries: math.MaxInt},
			"error delivery-limit-low"},
		{"limit MaxRetries+3", changes("x-delivery-limit=6"), limited, "error delivery-limit-low"},
		{"limit MaxRetries+4", changes("x-delivery-limit=7"), limited, "warning delivery-limit-tight"},
		{"limit MaxRetries+99", changes("x-delivery-limit=102"), limited, "warning delivery-limit-tight"},
		{"limit MaxRetries+100", changes("x-delivery-limit=103"), limited, ""},
		{"negative MaxRetries is none", changes("x-delivery-limit=4"), Need{Queue: "q", MaxRetries: -9},
			"warning delivery-limit-tight"},
		{"limit by policy on 3.10", changes("3.10 -x-delivery-limit policy:delivery-limit=500"), limited, ""},
		{"lower limit by policy", changes("policy:delivery-limit=5"), limited, "error delivery-limit-low"},
		{"higher limit by policy", changes("x-delivery-limit=5 policy:delivery-limit=500"), limited,
			"error delivery-limit-low"},
		{"limit -1, policy 500 on 4.0", changes("4.0 x-delivery-limit=-1 policy:delivery-limit=500"), limited, ""},
		{"limit -1, policy 500 on 3.10", changes("3.10 x-delivery-limit=-1 policy:delivery-limit=500"), limited,
			"error requeue-discards"},
		{"quorum on an unknown version", changes("0.0"), limited, "warning broker-unmeasured, error requeue-to-tail"},
		{"classic on an unknown version", changes(classic, "0.0"), limited, "warning broker-unmeasured"},
		{"RabbitMQ 3.9", changes("3.9"), limited, "warning broker-unmeasured"},
		{"another product", changes(func(f *Facts) { f.Product = "Hare" }), limited, "warning broker-unmeasured"},
		{"stream", changes(func(f *Facts) { f.Declared = broker.Declared{Type: "stream", Durable: true} }), dropping,
			"error queue-type"},

		{"no exchange", changes("-x-dead-letter-exchange"), limited, "error no-dead-letter-exchange"},
		{"no exchange, allowed", changes("-x-dead-letter-exchange"), dropping, ""},
		{"no exchange seen", changes(overAMQP, "-x-dead-letter-exchange"), limited, "error dead-letter-unproven"},
		{"no exchange seen, allowed", changes(overAMQP, "-x-dead-letter-exchange"), dropping, ""},
		{"classic, no exchange", changes(classic, "-x-dead-letter-exchange"), limited, "error no-dead-letter-exchange"},
		{"exchange by policy", changes("-x-dead-letter-exchange policy:dead-letter-exchange=p"), limited, ""},
		{"exchange missing", changes(noExchange), limited, "error dead-letter-exchange-missing"},
		{"exchange missing, allowed", changes(noExchange), dropping, "warning dead-letter-exchange-missing"},
		{"nothing bound", changes(bound("fanout")), limited, "error dead-letter-unbound"},
		{"nothing bound, allowed", changes(bound("fanout")), dropping, "warning dead-letter-unbound"},
		{"nothing bound, an alternate exchange to no queue", changes(bound("fanout"), alternate("fanout")), limited,
			"error dead-letter-unbound"},
		{"nothing bound, an alternate exchange to a queue", changes(bound("fanout"), alternate("fanout", toQueue("d", ""))),
			limited, ""},
		{"nothing bound, an alternate exchange for a key", changes(bound("fanout"), alternate("direct", toQueue("d", "k"))),
			limited, "warning dead-letter-key-open"},
		{"nothing bound, an alternate exchange that is not seen", changes(bound("fanout"), alternate("fanout"),
			func(f *Facts) { f.Known.Exchanges["x"] = Exchange{Exists: broker.Yes} }), limited, ""},
		{"nothing bound, an alternate exchange to itself", changes(bound("fanout"), alternate("fanout", toQueue("q", ""))),
			limited, "error dead-letter-loop"},
		{"key left open, an alternate exchange to a queue", changes(bound("direct", toQueue("d", "x")), alternate("fanout",
			toQueue("d", ""))), limited, ""},
		{"key bound", changes("x-dead-letter-routing-key=k", bound("direct", toQueue("d", "k"))), limited, ""},
		{"key not bound", changes("x-dead-letter-routing-key=k", bound("direct", toQueue("d", "x"))), limited,
			"error dead-letter-unbound"},
		{"key left open", changes(bound("direct", toQueue("d", "x"))), limited, "warning dead-letter-key-open"},
		{"no header asked for", changes(bound("headers", toQueue("d", ""))), limited, ""},
		{"a header asked for", changes(bound("headers", broker.Binding{Destination: "d", DestinationType: "queue",
			Arguments: broker.Table{"x-match": "all", "kind": "a"}})), limited, "warning dead-letter-key-open"},
		{"key with topic exchange", changes("x-dead-letter-routing-key=k", bound("topic", toQueue("d", "#"))), limited, ""},
		{"to another exchange, and no further", changes(bound("fanout", toExchange("x", ""))), limited,
			"error dead-letter-unbound"},
		{"to an exchange that picks", changes(bound("fanout", toExchange("x", "")), exchange("x", "topic",
			toQueue("d", "eu.#"))), limited, "warning dead-letter-key-open"},
		{"to an exchange that picks, with its key", changes("x-dead-letter-routing-key=eu.a", bound("fanout",
			toExchange("x", "")), exchange("x", "topic", toQueue("d", "eu.#"))), limited, ""},
		{"to an exchange that picks, and to a queue", changes(bound("fanout", toExchange("x", ""), toQueue("d", "")),
			exchange("x", "topic", toQueue("e", "eu.#"))), limited, ""},
		{"to an exchange of another kind", changes(bound("fanout", toExchange("x", "")), exchange("x", "x-hash",
			toQueue("d", "1"))), limited, ""},
		{"back to itself", changes(bound("fanout", toQueue("q", ""))), limited, "error dead-letter-loop"},
		{"back to itself and on", changes(bound("fanout", toQueue("q", ""), toQueue("d", ""))), limited,
			"error dead-letter-loop"},
		{"default exchange", changes(byDefault), limited, ""},
		{"default exchange, no such queue", changes(byDefault, func(f *Facts) { f.knows().Queues["d"] = nil }), limited,
			"error dead-letter-queue-missing"},
		{"default exchange, no key", changes("x-dead-letter-exchange="), limited, "error dead-letter-loop"},
		{"default exchange, own name", changes(lettersTo("q")), limited, "error dead-letter-loop"},
		{"node down", changes(func(f *Facts) { f.Away = true }), limited, "error queue-node-down"},
		{"node of the dead-letter queue down", changes(classic, away("q.dlq")), limited, awayError},
		{"node of the dead-letter queue down, allowed", changes(classic, away("q.dlq")), dropping, awayWarning},
		{"node of the dead-letter queue down, at least once", changes(away("q.dlq")), limited, awayWarning},
		{"node of the queue behind the default exchange down", changes(classic, byDefault, away("d")), limited, awayError},
		{"nodes of both dead-letter queues down", changes(classic, bound("fanout", toQueue("a", ""), toQueue("b", "")),
			away("a", "b")), limited, awayError + ", " + awayError},
		{"node of one dead-letter queue down", changes(classic, bound("fanout", toQueue("a", ""), toQueue("b", "")),
			away("a")), limited, awayWarning},
		{"node of the queue of some dead letters down", changes(classic, bound("topic", toQueue("all", "#"), toQueue("some",
			"eu")), away("some")), limited, awayWarning},
		{"node of the queue of all dead letters down", changes(classic, bound("topic", toQueue("all", "#"), toQueue("some",
			"eu")), away("all")), limited, awayError},
		{"node of the queue of other dead letters down", changes(classic, bound("topic", toQueue("us", "us"), toQueue("eu",
			"eu")), away("us")), limited, "warning dead-letter-key-open, " + awayWarning},
		{"node down behind a delay", changes(classic, keeps("q.dlq", "x-message-ttl=9", lettersTo("d")), away("d")), limited,
			awayError},
		{"node down behind a queue", changes(classic, keeps("q.dlq", lettersTo("d")), away("d")), limited, awayWarning},
		{"at most once", changes("-x-dead-letter-strategy"), limited, "warning dead-letter-at-most-once"},
		{"at least once without reject-publish", changes("-x-overflow"), limited, "warning dead-letter-at-most-once"},
		{"overflow by policy wins", changes("policy:overflow=drop-head"), limited, "warning dead-letter-at-most-once"},
		{"at most once, allowed", changes("-x-dead-letter-strategy"), dropping, ""},

		{"not single active", changes("-x-single-active-consumer"), ordered, "error not-single-active"},
		{"not single active, unordered", changes("-x-single-active-consumer"), limited, ""},
		{"priorities", changes(classic, "x-max-priority=5"), ordered, "error priorities"},
		{"priorities, unordered", changes(classic, "x-max-priority=5"), limited, ""},
		{"delayed retry", changes("x-delayed-retry-type=all"), limited, "warning delayed-retry"},
		{"delayed retry, ordered", changes("x-delayed-retry-type=all"), ordered, "error delayed-retry"},
		{"delayed retry off", changes("x-delayed-retry-type=disabled"), ordered, ""},

		{"exclusive", changes(func(f *Facts) {
			*f = Facts{Product: "RabbitMQ", Description: broker.Description{
				Queue: broker.Queue{Version: broker.Version{Major: 4, Minor: 3}, Exclusive: true}}}
		}), dropping, "error exclusive"},
		{"auto-delete", changes("auto-delete"), limited, "warning auto-delete"},
		{"auto-delete, held", changes("auto-delete"), holding, "error auto-delete"},
		{"expires, held", changes("x-expires=9"), holding, "error expires"},
		{"transient", changes(classic, "transient"), limited, "warning transient"},
		{"unreadable", changes(func(f *Facts) {
			*f = Facts{Product: "RabbitMQ", Description: broker.Description{
				Queue: broker.Queue{Version: broker.Version{Major: 4, Minor: 3}, Unread: "no permission"}}}
		}), ordered, "error arguments-unknown"},
		{"management in trouble", changes(overAMQP, func(f *Facts) { f.Trouble = "401" }), limited,
			"warning management-unreachable"},
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
		{"exchange missing", changes(noExchange), []string{`"q.dlx"`}},
		{"key", changes("x-dead-letter-routing-key=k", bound("direct", broker.Binding{Key: "x"})), []string{`"q.dlx"`, `"k"`,
			`"x"`}},
		{"limit", changes("x-delivery-limit=5"),
			[]string{"is 5, by the queue's argument x-delivery-limit, and allows 1 of 3 retries",
				"again with x-delivery-limit=1000", "a policy only lowers it"}},
		{"limit by policy", changes("policy:delivery-limit=2", func(f *Facts) { f.PolicyName = "all" }), []string{
			`is 2, by policy "all", and allows no retries`, `set delivery-limit=1000 in policy "all"`,
		}},
		{"limit -1", changes("4.0 x-delivery-limit=-1"), []string{"delivery limit -1 on RabbitMQ 4.0",
			"set delivery-limit=1000 by policy"}},
		{"default limit", changes("-x-delivery-limit"), []string{"20", "4.3", "policy"}},
		{"tail", changes("3.10 -x-delivery-limit"), []string{"3.10", "x-delivery-limit=1000", "policy"}},
		{"tail, policy not seen", changes(overAMQP, "3.10 -x-delivery-limit"),
			[]string{"give the URL of the management API (Check.Management)"}},
	}
	for _, tt := range tests {
		text := fmt.Sprint(Judge(All, traced(changed(sound(), tt.f)), Need{Queue: "q", MaxRetries: 3}))
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
