package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestParseDifference(t *testing.T) {
	const begin = "PRECONDITION_FAILED - inequivalent arg 'x-delivery-limit' for queue 'q' in vhost '/': received "
	tests := []struct {
		text string
		want difference
	}{
		{begin + "none but current is the value '7' of type 'signedint'", difference{name: "x-delivery-limit", value: int64(7)}},
		{begin + "none but current is the value '7' of type 'long'", difference{name: "x-delivery-limit", value: int64(7)}},
		{begin + "'classic' but current is 'quorum'", difference{name: "x-delivery-limit", value: "quorum"}},
		{begin + "none but current is the value 'true' of type 'bool'", difference{name: "x-delivery-limit", value: true}},
		{begin + "none but current is the value '2.5' of type 'double'", difference{name: "x-delivery-limit", value: 2.5}},
		{begin + "the value '5' of type 'signedint' but current is none", difference{name: "x-delivery-limit"}},
		{begin + "none but current is the value 'd'x\n but current is none' of type 'longstr'",
			difference{name: "x-delivery-limit", value: "d'x\n but current is none"}},
		{begin + "none but current is the value 'abcdef' of type 'long...", difference{name: "x-delivery-limit", cut: true}},
		{begin[:60] + "...", difference{name: "x-delivery-limit", cut: true}},
		{begin + "none but current is the value 'abc...' of type 'longstr'", difference{name: "x-delivery-limit", value: "abc..."}},
	}
	for _, tt := range tests {
		got, ok := parseDifference(tt.text, "/", "q")
		if !ok || got != tt.want {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", tt.text, got, ok, tt.want)
		}
	}
	for _, text := range []string{
		"",
		"PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 'q' in vhost '/' of queue type rabbit_classic_queue",
		"PRECONDITION_FAILED - inequivalent arg 'x-overflow",
		begin + "none but current is the value '[{longstr,<<\"a\">>}]' of type 'array'",
		begin + "none but current is 7",
		begin + "none but current is the value 'maybe' of type 'bool'",
	} {
		if got, ok := parseDifference(text, "/", "q"); ok {
			t.Errorf("%s: understood as %+v", text, got)
		}
	}
}

// broker answers declarations of one queue as RabbitMQ does.
type broker struct {
	vhost, queue string
	durable      bool
	autoDelete   bool
	args         amqp.Table
	refuse       *amqp.Error // instead, if not nil
}

// The order in which the arguments are compared.
var compared = []string{
	"x-expires", "x-message-ttl", argDeadLetterExchange, argDeadLetterKey, argStrategy, "x-max-length",
	argOverflow, argMaxPriority, argSingleActive, argType, argDeliveryLimit,
}

func (b broker) declare(r reading) *amqp.Error {
	if b.refuse != nil {
		return b.refuse
	}
	if r.durable != b.durable {
		return b.differs("durable", fmt.Sprintf("'%v' but current is '%v'", r.durable, b.durable))
	}
	if r.autoDelete != b.autoDelete {
		return b.differs("auto_delete", fmt.Sprintf("'%v' but current is '%v'", r.autoDelete, b.autoDelete))
	}
	for _, name := range compared {
		got, sent := r.args[name]
		have, set := b.args[name]
		switch {
		case got == have, name == argType && !set && got == "classic":
		case sent && set:
			return b.differs(name, fmt.Sprintf("'%v' but current is '%v'", got, have))
		case set:
			return b.differs(name, "none but current is "+typed(have))
		default:
			return b.differs(name, typed(got)+" but current is none")
		}
	}
	return nil
}

func typed(v any) string {
	kind := map[string]string{"string": "longstr", "int64": "long", "bool": "bool", "int32": "signedint"}[fmt.Sprintf("%T", v)]
	return fmt.Sprintf("the value '%v' of type '%s'", v, kind)
}

func (b broker) differs(name, how string) *amqp.Error {
	text := fmt.Sprintf("PRECONDITION_FAILED - inequivalent arg '%s' for queue '%s' in vhost '%s': received %s", name, b.queue, b.vhost, how)
	if len(text) > maxReply {
		text = text[:maxReply-3] + "..."
	}
	return &amqp.Error{Code: amqp.PreconditionFailed, Reason: text}
}

// learn runs the loop of readArguments against the broker.
func learn(b broker) (declared, error) {
	r := reading{queue: b.queue, durable: true, args: amqp.Table{}, guesses: map[string][]any{}}
	for range maxProbes {
		reply := b.declare(r)
		if reply == nil {
			return r.result(), nil
		}
		if err := r.learn(reply, b.vhost); err != nil {
			return declared{}, err
		}
	}
	return declared{}, errors.New("no end")
}

func TestLearn(t *testing.T) {
	long := strings.Repeat("settlement.", 18)
	tests := []struct {
		name string
		b    broker
		kind string
	}{
		{"plain", broker{queue: "q", durable: true}, "classic"},
		{"transient and auto-delete", broker{queue: "q", autoDelete: true}, "classic"},
		{"quorum as declared", broker{queue: "q", durable: true, args: Spec{Queue: "q"}.withDefaults().arguments()}, "quorum"},
		{"classic as declared", broker{queue: "q", durable: true, args: Spec{Queue: "q", Type: Classic, SingleActiveConsumer: true}.withDefaults().arguments()}, "classic"},
		{"everything", broker{queue: "it's", vhost: "a/b", durable: true, args: amqp.Table{
			"x-expires": int64(60000), "x-message-ttl": int64(5), argDeadLetterExchange: "", argDeadLetterKey: "k' of type 'bool",
			"x-max-length": int64(9), argOverflow: "drop-head", argType: "quorum", argDeliveryLimit: int64(-1),
		}}, "quorum"},
		{"as declared, name too long for the answers", broker{queue: long, durable: true, args: Spec{Queue: long, SingleActiveConsumer: true}.withDefaults().arguments()}, "quorum"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := learn(tt.b)
			if err != nil {
				t.Fatal(err)
			}
			want := declared{kind: tt.kind, durable: tt.b.durable, autoDelete: tt.b.autoDelete, args: merge(tt.b.args)}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(declared{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLearnGivesUp(t *testing.T) {
	long := strings.Repeat("settlement.", 18)
	refuse := func(code int, text string) broker {
		return broker{queue: "q", refuse: &amqp.Error{Code: code, Reason: text}}
	}
	stuck := broker{queue: "q", vhost: "/"}.differs("x-overflow", "none but current is the value 'a' of type 'longstr'")
	tests := []struct {
		name string
		b    broker
		want string
	}{
		{"permission", refuse(amqp.AccessRefused, "ACCESS_REFUSED - configure access to queue 'q' refused for user 'u'"), "configure permission"},
		{"reserved name", refuse(amqp.AccessRefused, "ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'"), "amq."},
		{"exclusive", refuse(amqp.ResourceLocked, "RESOURCE_LOCKED"), "exclusive"},
		{"deleted meanwhile", refuse(amqp.PreconditionFailed, "PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 'q'"), "queue not found"},
		{"another text", refuse(amqp.PreconditionFailed, "PRECONDITION_FAILED - no"), "not understood"},
		{"never satisfied", broker{queue: "q", vhost: "/", refuse: stuck}, "does not take"},
		{"names too long", broker{queue: long, durable: true, args: amqp.Table{argDeadLetterExchange: "somewhere"}}, "cut at 255 bytes"},
	}
	for _, tt := range tests {
		tt.b.vhost = "/"
		if got, err := learn(tt.b); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %+v, %v; want an error with %q", tt.name, got, err, tt.want)
		}
	}
}

func TestExpressible(t *testing.T) {
	for name, want := range map[string]bool{
		"q": true, strings.Repeat("q", 250): true, "bestätigt": true, strings.Repeat("ä", 60): false,
	} {
		if got := expressible("/", name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

func FuzzParseDifference(f *testing.F) {
	f.Add("q", "/", "orders.dlx")
	f.Add("it's", "a' b", "' of type 'longstr'")
	f.Fuzz(func(t *testing.T, queue, vhost, value string) {
		text := fmt.Sprintf("inequivalent arg 'x' for queue '%s' in vhost '%s': received none but current is the value '%s' of type 'longstr'", queue, vhost, value)
		got, ok := parseDifference(text, vhost, queue)
		if want := (difference{name: "x", value: value}); !ok || got != want {
			t.Errorf("got %+v, %v, want %+v", got, ok, want)
		}
		parseDifference(value, vhost, queue) // must not panic
	})
}

func TestDifferences(t *testing.T) {
	want := Spec{Queue: "q", SingleActiveConsumer: true}.withDefaults().arguments()
	same := declared{kind: "quorum", durable: true, args: merge(want)}
	if got := differences(same, want); len(got) > 0 {
		t.Errorf("the same queue differs: %v", got)
	}
	other := declared{kind: "classic", autoDelete: true, args: amqp.Table{"x-expires": int64(5), argDeadLetterExchange: "d"}}
	got := differences(other, want)
	for _, w := range []string{
		"durable=false, not true", "auto-delete=true, not false", `x-queue-type "classic", not "quorum"`,
		`x-dead-letter-exchange "d", not "q.dlx"`, "x-expires 5, not unset", "x-delivery-limit unset, not 1000",
		"x-single-active-consumer unset, not true", `x-overflow unset, not "reject-publish"`,
		`x-dead-letter-strategy unset, not "at-least-once"`,
	} {
		if !slices.Contains(got, w) {
			t.Errorf("%q is not among %q", w, got)
		}
	}
	if len(got) != 9 {
		t.Errorf("got %d differences: %q", len(got), got)
	}
}

func TestMergeLeavesItsInput(t *testing.T) {
	a, b := amqp.Table{"x": 1}, amqp.Table{"x": 2, "y": 3}
	if got := merge(a, b); !maps.Equal(got, amqp.Table{"x": 2, "y": 3}) || !maps.Equal(a, amqp.Table{"x": 1}) {
		t.Errorf("got %v from %v", got, a)
	}
}
