package broker

import (
	"errors"
	"fmt"
	"maps"
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
		{begin + "none but current is the value '7' of type 'signedint'", difference{name: "x-delivery-limit",
			value: int64(7)}},
		{begin + "none but current is the value '7' of type 'long'", difference{name: "x-delivery-limit", value: int64(7)}},
		{begin + "'classic' but current is 'quorum'", difference{name: "x-delivery-limit", value: "quorum"}},
		{begin + "none but current is the value 'true' of type 'bool'", difference{name: "x-delivery-limit", value: true}},
		{begin + "none but current is the value '2.5' of type 'double'", difference{name: "x-delivery-limit", value: 2.5}},
		{begin + "the value '5' of type 'signedint' but current is none", difference{name: "x-delivery-limit"}},
		{begin + "none but current is the value 'd'x\n but current is none' of type 'longstr'",
			difference{name: "x-delivery-limit", value: "d'x\n but current is none"}},
		{begin + "none but current is the value 'abcdef' of type 'long...", difference{name: "x-delivery-limit", cut: true}},
		{begin[:60] + "...", difference{name: "x-delivery-limit", cut: true}},
		{begin + "none but current is the value 'abc...' of type 'longstr'", difference{name: "x-delivery-limit",
			value: "abc..."}},
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
	"x-expires", "x-message-ttl", ArgDeadLetterExchange, ArgDeadLetterKey, ArgStrategy, "x-max-length",
	ArgOverflow, ArgMaxPriority, ArgSingleActive, ArgType, ArgDeliveryLimit,
}

func (b broker) declare(r reading) *amqp.Error {
	if b.refuse != nil {
		return b.refuse
	}
	if r.Durable != b.durable {
		return b.differs("durable", fmt.Sprintf("'%v' but current is '%v'", r.Durable, b.durable))
	}
	if r.AutoDelete != b.autoDelete {
		return b.differs("auto_delete", fmt.Sprintf("'%v' but current is '%v'", r.AutoDelete, b.autoDelete))
	}
	for _, name := range compared {
		got, sent := r.Args[name]
		have, set := b.args[name]
		switch {
		case got == have, name == ArgType && !set && got == "classic":
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
	kind := map[string]string{"string": "longstr", "int64": "long", "bool": "bool",
		"int32": "signedint"}[fmt.Sprintf("%T", v)]
	return fmt.Sprintf("the value '%v' of type '%s'", v, kind)
}

func (b broker) differs(name, how string) *amqp.Error {
	text := fmt.Sprintf("PRECONDITION_FAILED - inequivalent arg '%s' for queue '%s' in vhost '%s': received %s", name,
		b.queue, b.vhost, how)
	if len(text) > maxReply {
		text = text[:maxReply-3] + "..."
	}
	return &amqp.Error{Code: amqp.PreconditionFailed, Reason: text}
}

// learn runs the loop of readArguments against the broker.
func learn(b broker) (Declared, error) {
	r := read(b.queue)
	for range maxProbes {
		reply := b.declare(r)
		if reply == nil {
			return r.result(), nil
		}
		if err := r.learn(reply, b.vhost); err != nil {
			return Declared{}, err
		}
	}
	return Declared{}, errors.New("no end")
}

// asDeclared returns the arguments of a quorum queue that package topology declares.
func asDeclared(queue string) amqp.Table {
	return amqp.Table{
		ArgType: Quorum, ArgDeadLetterExchange: ExchangeFor(queue), ArgDeliveryLimit: int64(DefaultDeliveryLimit),
		ArgStrategy: "at-least-once", ArgOverflow: "reject-publish",
	}
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
		{"quorum as declared", broker{queue: "q", durable: true, args: asDeclared("q")}, "quorum"},
		{"classic as declared", broker{queue: "q", durable: true, args: amqp.Table{ArgType: Classic,
			ArgDeadLetterExchange: "q.dlx", ArgSingleActive: true}}, "classic"},
		{"everything", broker{queue: "it's", vhost: "a/b", durable: true, args: amqp.Table{
			"x-expires": int64(60000), "x-message-ttl": int64(5), ArgDeadLetterExchange: "",
			ArgDeadLetterKey: "k' of type 'bool",
			"x-max-length":   int64(9), ArgOverflow: "drop-head", ArgType: "quorum", ArgDeliveryLimit: int64(-1),
		}}, "quorum"},
		{"as declared, name too long for the answers", broker{queue: long, durable: true, args: Merge(asDeclared(long),
			amqp.Table{ArgSingleActive: true})}, "quorum"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := learn(tt.b)
			need(t, err)
			want := Declared{Type: tt.kind, Durable: tt.b.durable, AutoDelete: tt.b.autoDelete, Args: Merge(tt.b.args)}
			if diff := cmp.Diff(want, got); diff != "" {
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
		{"permission", refuse(amqp.AccessRefused, "ACCESS_REFUSED - configure access to queue 'q' refused for user 'u'"),
			"configure permission"},
		{"reserved name", refuse(amqp.AccessRefused, "ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'"),
			"amq."},
		{"exclusive", refuse(amqp.ResourceLocked, "RESOURCE_LOCKED"), "exclusive"},
		{"deleted meanwhile", refuse(amqp.PreconditionFailed, "PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 'q'"),
			"queue not found"},
		{"another text", refuse(amqp.PreconditionFailed, "PRECONDITION_FAILED - no"), "not understood"},
		{"never satisfied", broker{queue: "q", vhost: "/", refuse: stuck}, "although it reports"},
		{"names too long", broker{queue: long, durable: true, args: amqp.Table{ArgDeadLetterExchange: "somewhere"}},
			"cut at 255 bytes"},
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
		text := fmt.Sprintf("inequivalent arg 'x' for queue '%s' in vhost '%s': received none but current is the value "+
			"'%s' of type 'longstr'", queue, vhost, value)
		got, ok := parseDifference(text, vhost, queue)
		if want := (difference{name: "x", value: value}); !ok || got != want {
			t.Errorf("got %+v, %v, want %+v", got, ok, want)
		}
		parseDifference(value, vhost, queue) // must not panic
	})
}

func TestMergeLeavesItsInput(t *testing.T) {
	a, b := amqp.Table{"x": 1}, amqp.Table{"x": 2, "y": 3}
	if got := Merge(a, b); !maps.Equal(got, amqp.Table{"x": 2, "y": 3}) || !maps.Equal(a, amqp.Table{"x": 1}) {
		t.Errorf("got %v from %v", got, a)
	}
}

// FuzzReply: any reply to a declaration teaches something or ends the reading with an error.
func FuzzReply(f *testing.F) {
	f.Add(406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received none but "+
		"current is the value 'quorum' of type 'longstr'")
	f.Add(406, "PRECONDITION_FAILED - inequivalent arg 'x-delivery-limit' for queue 'q' in vhost '/': received none but "+
		"current is the value '99999999999999999999' of type 'signedint'")
	f.Add(406, "inequivalent arg '' for queue 'q' in vhost '/': received  but current is ''")
	f.Add(406, "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'")
	f.Add(406, "inequivalent arg 'x-overflow' for queue 'q' in vhost '...")
	f.Add(406, "inequivalent arg 'x' for queue 'q' in vhost '/': received none but current is the value '' of type '")
	f.Add(406, "invalid arg 'x-max-age'")
	f.Add(403, "reserved prefix")
	f.Add(405, "")
	f.Fuzz(func(t *testing.T, code int, reason string) {
		r := read("q")
		for n := 0; ; n++ { // the same reply again and again must not be asked for without end
			if err := r.learn(&amqp.Error{Code: code, Reason: reason}, "/"); err != nil {
				break
			}
			if n > 2*maxProbes && !strings.Contains(reason, "'durable'") && !strings.Contains(reason, "'auto_delete'") {
				t.Fatalf("%d %q is learned from without end: %v", code, reason, r.Args)
			}
			if n > 3*maxProbes {
				break
			}
		}
		if got := r.result(); got.Type == "" && got.Args[ArgType] != "" {
			t.Errorf("a queue of no type: %+v", got)
		}
	})
}
