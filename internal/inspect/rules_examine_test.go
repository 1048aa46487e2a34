package inspect

import (
	"encoding/json"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// examined are sound facts with all that a close look sees.
func examined() Facts {
	f := sound()
	f.VHost = "a/b"
	f.Vitals = &Vitals{Targets: []broker.Queue{{
		Version: f.Version, VHost: f.VHost, Name: "q.dlq", Policy: amqp.Table{}, PolicyKnown: true,
		Declared: broker.Declared{Type: "quorum", Durable: true, Args: broker.DeadLetterArguments()},
	}}}
	return f
}

func end(change func(*broker.Queue)) func(*Facts) {
	return func(f *Facts) { change(&f.Vitals.Targets[0]) }
}

// endWith sets the dead-letter queue by words.
func endWith(words string) func(*Facts) { return end(func(q *broker.Queue) { set(q, words) }) }

// limitedEnd limits the dead-letter queue by policy.
func limitedEnd(key, overflow string) func(*Facts) {
	return end(func(t *broker.Queue) {
		t.Policy[key] = int64(5)
		if overflow != "" {
			t.Policy["overflow"] = overflow
		}
	})
}

var classicEnd = end(func(t *broker.Queue) { t.Type, t.Args = "classic", amqp.Table{} })

// beside is a second dead-letter queue, which keeps all dead letters or some.
func beside(all bool) func(*Facts) {
	return func(f *Facts) {
		keeps("second")(f)
		f.Route.Landings = []Landing{{Name: "q.dlq"}, {Name: "second", Depends: !all}}
	}
}

func consumedBy(c ...broker.Consumer) func(*Facts) {
	return func(f *Facts) { f.Vitals.Consumers = c }
}

func policies(p ...broker.Policy) func(*Facts) { return func(f *Facts) { f.Policies.User = p } }

func TestOfAlarms(t *testing.T) {
	got := OfAlarms([]broker.Alarm{{Node: "b", Resource: "memory"}, {Node: "c", Resource: "disk"},
		{Node: "a", Resource: "memory"}, {Node: "a", Resource: "ink"}})
	var said []string
	for _, f := range got {
		said = append(said, f.Severity.String()+" "+f.Code+": "+f.Seen)
	}
	want := "error broker-alarm: the disk alarm is on, on c\nerror broker-alarm: the alarm \"ink\" is on, on a\n" +
		"error broker-alarm: the memory alarm is on, on a, b"
	if s := strings.Join(said, "\n"); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
	if got := OfAlarms(nil); got != nil {
		t.Errorf("without an alarm: %v", got)
	}
}

func TestJudgeClosely(t *testing.T) {
	plain := Need{Queue: "q", MaxRetries: 3}
	ordered := Need{Queue: "q", MaxRetries: 3, Ordered: true}
	closely := Need{Queue: "q", MaxRetries: 3, Closely: true, Management: "http://localhost"}
	ready := func(messages, consumers int) func(*Facts) {
		return func(f *Facts) { f.Ready, f.Consumers = messages, consumers }
	}
	acks := func(prefetch int64) broker.Consumer { return broker.Consumer{Acks: true, Prefetch: prefetch} }
	var prior broker.Consumer
	if err := json.Unmarshal([]byte(`{"ack_required":true,"prefetch_count":10,"arguments":{"x-priority":5}}`),
		&prior); err != nil {
		t.Fatal(err)
	}
	lazyHA := broker.Policy{Name: "ha", Pattern: ".*", ApplyTo: "all", Definition: broker.Table{"ha-mode": "all",
		"max-length": int64(5)}}
	const (
		isClassic = "warning dead-letter-queue-classic"
		keepsAll  = "warning dead-letter-queue-limited"
		loses     = "error dead-letter-queue-limited"
	)
	tests := []struct {
		name string
		f    []func(*Facts)
		need Need
		want string
	}{
		{"sound", nil, ordered, ""},
		{"nothing known of the end", changes(func(f *Facts) { f.Vitals.Targets[0].Declared = broker.Declared{} }), plain, ""},
		{"end not durable", changes(endWith("transient")), plain, "warning dead-letter-queue-temporary"},
		{"end auto-delete", changes(endWith("auto-delete")), plain, "warning dead-letter-queue-temporary"},
		{"end exclusive", changes(end(func(t *broker.Queue) { *t = broker.Queue{Name: "d", Exclusive: true} })), plain,
			"warning dead-letter-queue-temporary"},
		{"end expires by policy", changes(endWith("policy:expires=5")), plain, "warning dead-letter-queue-temporary"},
		{"end classic", changes(classicEnd), plain, isClassic},
		{"end stream", changes(end(func(t *broker.Queue) { t.Type, t.Args = "stream", nil })), plain,
			"warning dead-letter-queue-stream"},
		{"end limited by policy, drops its head", changes(limitedEnd("max-length", "")), plain, loses},
		{"end limited in bytes", changes(limitedEnd("max-length-bytes", "drop-head")), plain, loses},
		{"end that refuses, at least once", changes(limitedEnd("max-length", "reject-publish")), plain, keepsAll},
		{"end that refuses, at most once", changes(limitedEnd("max-length", "reject-publish"), "-x-dead-letter-strategy"),
			plain, "warning dead-letter-at-most-once, " + keepsAll},
		{"end that refuses, at least once falls back", changes(classicEnd, limitedEnd("max-length", "reject-publish"),
			"-x-overflow"), plain, "warning dead-letter-at-most-once, " + isClassic + ", " + loses},
		{"end that refuses, classic", changes(classic, classicEnd, limitedEnd("max-length", "reject-publish")), plain,
			isClassic + ", " + loses},
		{"end that takes more, classic", changes(classic, limitedEnd("max-length", "reject-publish")), plain, keepsAll},
		{"end that drops its head, classic", changes(classic, limitedEnd("max-length", "drop-head")), plain, loses},
		{"end that refuses in bytes, classic", changes(classic, classicEnd, limitedEnd("max-length-bytes",
			"reject-publish-dlx")), plain, isClassic + ", " + loses},
		{"end that moves its head on, classic", changes(classic, limitedEnd("max-length", "drop-head"),
			endWith("x-dead-letter-exchange=x")), plain, keepsAll},
		{"end that sends on what it refuses, classic", changes(classic, classicEnd, limitedEnd("max-length",
			"reject-publish-dlx"), endWith("x-dead-letter-exchange=x")), plain, isClassic + ", " + keepsAll},
		{"end that refuses, with a DLX that it does not use", changes(classic, classicEnd, limitedEnd("max-length",
			"reject-publish"), endWith("x-dead-letter-exchange=x")), plain, isClassic + ", " + loses},
		{"end that refuses beside one that keeps, classic", changes(classic, classicEnd, limitedEnd("max-length",
			"reject-publish"), beside(true)), plain, isClassic + ", " + keepsAll},
		{"end that refuses beside one that keeps some, classic", changes(classic, classicEnd, limitedEnd("max-length",
			"reject-publish"), beside(false)), plain, isClassic + ", " + loses},
		{"end with TTL", changes(endWith("x-message-ttl=5")), plain, "warning dead-letter-queue-ttl"},
		{"all of it allowed", changes(endWith("transient")), Need{Queue: "q", MaxRetries: 3, AllowDrop: true}, ""},
		{"end with the default limit", changes(endWith("-x-delivery-limit")), plain,
			"warning dead-letter-queue-delivery-limit"},
		{"end whose policy is not seen", changes(endWith("-x-delivery-limit"), end(func(t *broker.Queue) {
			t.PolicyKnown = false
		})), plain, ""},
		{"end without limit on 3.10", changes(endWith("3.10 -x-delivery-limit")), plain, ""},
		{"end with limit -1 on 3.10", changes(endWith("3.10 x-delivery-limit=-1")), plain,
			"warning dead-letter-queue-delivery-limit"},
		{"end with limit -1", changes(endWith("x-delivery-limit=-1")), plain, ""},

		{"TTL by argument and policy", changes("x-message-ttl=9 policy:message-ttl=5"), plain, "warning message-ttl"},
		{"drop-head by policy", changes("x-max-length=9 policy:overflow=drop-head"), plain,
			"warning dead-letter-at-most-once, warning drops-head"},
		{"full queue that refuses", changes("x-max-length=9"), plain, ""},
		{"expires", changes("x-expires=9"), plain, "warning expires"},

		{"the argument wins over the policy", changes("policy:dead-letter-exchange=x"), plain, ""},

		{"foreign policy", changes(policies(lazyHA)), plain, "warning policy-not-applied"},
		{"foreign policy for a classic queue", changes(classic, policies(broker.Policy{Name: "p", ApplyTo: "queues",
			Definition: broker.Table{"delivery-limit": int64(5)}})), plain, "warning policy-not-applied"},
		{"no foreign policy for a classic queue", changes(classic, policies(lazyHA)), plain, ""},
		{"foreign policy that matches others", changes(policies(broker.Policy{Pattern: "^r", ApplyTo: "all",
			Definition: lazyHA.Definition})), plain, ""},
		{"foreign policy for another type", changes(policies(broker.Policy{ApplyTo: "classic_queues",
			Definition: lazyHA.Definition})), plain, ""},
		{"foreign policy for exchanges", changes(policies(broker.Policy{ApplyTo: "exchanges",
			Definition: lazyHA.Definition})), plain, ""},
		{"pattern that is not Go's", changes(policies(broker.Policy{Pattern: "(?<!r)q", ApplyTo: "all",
			Definition: lazyHA.Definition})), plain, ""},
		{"policy that is not seen yet", changes(policies(lazyHA), func(f *Facts) { f.PolicyKnown = false }), plain, ""},

		{"messages without a consumer", changes(ready(3, 0)), closely, "warning no-consumer"},
		{"a start finds no consumer yet", changes(ready(3, 0)), plain, ""},
		{"no message and no consumer", changes(ready(0, 0)), closely, ""},
		{"messages and a consumer", changes(ready(3, 1)), closely, ""},
		{"a stream, whose consumers AMQP does not count", changes(ready(3, 0), func(f *Facts) { f.Type = "stream" }), closely,
			"error queue-type"},
		{"messages that wait for their return", changes(ready(3, 0), "x-message-ttl=9"), closely, "warning message-ttl"},

		{"no acks", changes(consumedBy(acks(10), broker.Consumer{})), plain, "error auto-ack"},
		{"no prefetch", changes(consumedBy(acks(0))), plain, "warning no-prefetch"},
		{"priority", changes(consumedBy(acks(10), prior)), plain, "warning consumer-priority"},
		{"priority, classic", changes(classic, consumedBy(prior)), plain, ""},
		{"priority, several active", changes("x-single-active-consumer=false", consumedBy(prior)), plain, ""},
		{"priority on 4.0", changes("4.0", consumedBy(prior)), plain, ""},
		{"acks and prefetch", changes(consumedBy(acks(10), acks(59))), plain, ""},

		{"transient messages", changes(classic, func(f *Facts) { f.Vitals.Bytes = 1 }), plain, "warning transient-messages"},
		{"persistent messages", changes(classic, func(f *Facts) { f.Vitals.Bytes, f.Vitals.PersistentBytes = 1, 1 }), plain,
			""},
		{"priorities in use", changes(func(f *Facts) { f.Vitals.Priorities = 2 }), ordered, "error priorities-used"},
		{"priorities in use, unordered", changes(func(f *Facts) { f.Vitals.Priorities = 2 }), plain, ""},
		{"delayed retry by policy", changes("policy:delayed-retry-type=all"), ordered, "error delayed-retry"},
		{"not asked", changes(overAMQP, func(f *Facts) { f.Vitals = nil }),
			Need{Queue: "q", MaxRetries: 3, Closely: true}, "warning bindings-unknown, warning not-seen"},
		{"denied", changes(func(f *Facts) {
			*f = Facts{Product: "RabbitMQ", Description: broker.Description{
				Queue: broker.Queue{Version: broker.Version{Major: 4, Minor: 3}, Unread: "no permission", Denied: true}}}
		}), plain, "error arguments-denied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := judged(t, All, changed(examined(), tt.f), tt.need); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestOperatorsPolicyIsNamed: a finding names the policy whose value is in force.
func TestOperatorsPolicyIsNamed(t *testing.T) {
	user := amqp.Table{"message-ttl": int64(9), "delivery-limit": int64(4), "expires": int64(5)}
	operator := amqp.Table{"message-ttl": int64(7), "delivery-limit": int64(3)}
	f := changed(examined(), changes("-x-delivery-limit"))
	f.PolicyName, f.OperatorPolicy, f.Policy = "a", operator, broker.JoinPolicies(user, operator)
	want := map[string]string{"message-ttl": "the operator policy", CodeLimitLow: "the operator policy",
		"expires": `policy "a"`}
	for _, x := range Judge([]Rule{limitsRule, DeliveryLimitRule}, f, Need{Queue: "q"}) {
		if !strings.HasSuffix(x.Fix, want[x.Code]) || want[x.Code] == "" {
			t.Errorf("%s: %s", x.Code, x.Fix)
		}
		delete(want, x.Code)
	}
	if len(want) > 0 {
		t.Errorf("no finding of %v", want)
	}
}
