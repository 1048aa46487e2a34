package deadletter

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/reason"
)

func TestGenerationHeaderIsTheConsumers(t *testing.T) {
	if GenerationHeader != consumer.GenerationHeader {
		t.Errorf("%q, the consumer's is %q", GenerationHeader, consumer.GenerationHeader)
	}
	if FenceHeader != consumer.FenceHeader {
		t.Errorf("%q, the consumer's is %q", FenceHeader, consumer.FenceHeader)
	}
}

var died = time.Date(2026, 3, 1, 2, 3, 4, 0, time.UTC)

func death(queue, reason string, count int64) amqp.Table {
	return amqp.Table{"queue": queue, "reason": reason, "count": count, "time": died, "exchange": "x",
		"routing-keys": []any{"k", "l"}}
}

func TestOrigin(t *testing.T) {
	for _, tc := range []struct {
		name  string
		death any
		want  string
	}{
		{"none", nil, ""},
		{"not a list", "x", ""},
		{"not of tables", []any{"x", 1}, ""},
		{"without a queue", []any{amqp.Table{"reason": "rejected"}}, ""},
		{"of other types", []any{amqp.Table{"queue": 7, "reason": nil, "count": "many", "time": "now",
			"routing-keys": "k"}}, ""},
		{"rejected", []any{death("orders", "rejected", 1)}, "orders"},
		{"the newest comes first", []any{death("second", "rejected", 1), death("first", "rejected", 1)}, "second"},
		{"a delay queue has expired since", []any{death("delay", "expired", 3), death("orders", "rejected", 3)}, "orders"},
		{"only expired", []any{death("orders", "expired", 1), death("older", "maxlen", 1)}, "orders"},
		{"in the dead-letter queue itself", []any{death("orders.dlq", "rejected", 1), death("orders", "rejected", 1)},
			"orders"},
	} {
		if got := messageOf(amqp.Table{"x-death": tc.death}).Origin; got.Queue != tc.want {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
	want := Death{Queue: "orders", Exchange: "x", Key: "k", Reason: "rejected", Time: died, Count: 2}
	twice := messageOf(amqp.Table{"x-death": []any{death("orders", "rejected", 2)}})
	if diff := cmp.Diff(want, twice.Origin); diff != "" {
		t.Error(diff)
	}
}

func messageOf(headers amqp.Table) *Message {
	q := &Queue{Name: "orders.dlq"}
	return q.newMessage(&amqp.Delivery{MessageId: "17", Headers: headers, Body: []byte("body"), UserId: "ann",
		DeliveryMode: amqp.Transient, DeliveryTag: 9})
}

func TestKind(t *testing.T) {
	for _, tc := range []struct {
		broker string
		cause  counter.Cause
		record bool
		want   Kind
	}{
		{"rejected", "", false, KindNoRecord},
		{"rejected", counter.CauseFailed, true, KindFailed},
		{"rejected", counter.CauseRejected, true, KindRejected},
		{"rejected", counter.CausePanicked, true, KindPanicked},
		{"rejected", counter.CauseCrashed, true, KindCrashed},
		{"rejected", counter.CauseTimedOut, true, KindTimedOut},
		{"delivery_limit", counter.CauseFailed, true, KindDeliveryLimit},
		{"expired", "", false, KindExpired},
		{"maxlen", "", false, KindOverflow},
		{"", "", false, KindUnknown},
		{"", counter.CauseFailed, true, KindFailed},
	} {
		m := &Message{Origin: Death{Queue: "orders", Reason: tc.broker}}
		if tc.record {
			m.Record = &counter.Record{Cause: tc.cause}
		}
		if got := m.Kind(); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

// TestRevive replays one message twice, with a death in between.
func TestRevive(t *testing.T) {
	m := messageOf(amqp.Table{
		"x-death": []any{death("orders", "rejected", 1)}, "x-first-death-queue": "orders", "x-last-death-reason": "rejected",
		"x-delivery-count": int64(3), "x-acquired-count": int64(3), "CC": []any{"others"}, "BCC": []any{"others"},
		"tenant": "a",
	})
	m.Record = &counter.Record{Reason: "no stock"}
	now := time.Now()
	first := m.forReplay("orders.dlq", "orders", now)
	want := amqp.Publishing{
		MessageId: "17", Body: []byte("body"), DeliveryMode: amqp.Persistent,
		Headers: amqp.Table{
			"tenant": "a", GenerationHeader: "1-1772330584-1", FenceHeader: now.UnixMicro(),
			LineageHeader: amqp.Table{"count": int64(1), "from": "orders.dlq", "queue": "orders", "exchange": "x", "key": "k",
				"died": died, "reason": "no stock", "user": "ann"},
		},
	}
	broker.WriteFor(want.Headers, "orders", "17", nil)
	if diff := cmp.Diff(want, first); diff != "" {
		t.Error(diff)
	}
	again := m.forReplay("orders.dlq", "orders", time.Now().Add(time.Hour))
	if again.Headers[GenerationHeader] != first.Headers[GenerationHeader] {
		t.Errorf("a copy has another generation: %v", again.Headers)
	}
	if m.Publishing.Headers["x-death"] == nil {
		t.Error("the message's own headers are changed")
	}

	landed := messageOf(m.ForReplay("orders.dlq").Headers) // among the dead messages, without a death
	if want := (Death{Queue: "orders", Exchange: "x", Key: "k", Reason: "no stock", Time: died}); landed.Origin != want {
		t.Errorf("of a replay that led back: %+v", landed.Origin)
	}

	headers := first.Headers
	diedAgain := death("orders", "rejected", 1)
	diedAgain["exchange"], diedAgain["routing-keys"] = "", []any{"orders"} // those of the replay
	headers["x-death"] = []any{diedAgain}
	m = messageOf(headers)
	second := m.forReplay("orders.dlq", "orders", time.Now())
	if second.Headers[GenerationHeader] == first.Headers[GenerationHeader] || m.Replays != 1 ||
		m.next != second.Headers[GenerationHeader] {
		t.Errorf("the second replay, %d: %v", m.Replays, second.Headers)
	}
	if l := second.Headers[LineageHeader].(amqp.Table); l["exchange"] != "x" || l["key"] != "k" {
		t.Errorf("the second replay lost the route of the message, by which it has a lane: %v", l)
	}
	if diff := cmp.Diff([]string{"header:1-1772330584-1"}, generationsOf(m)); diff != "" {
		t.Error(diff)
	}
}

func TestDestination(t *testing.T) {
	stray := &Message{}
	dead := &Message{Origin: Death{Queue: "orders", Exchange: "x", Key: "k"}}
	partitioned := func(exchange, key string) *Message {
		return &Message{Queue: "orders", Origin: Death{Queue: "orders.3", Exchange: exchange, Key: key}}
	}
	for _, tc := range []struct {
		message       *Message
		exchange, key string
		ok            bool
	}{
		{dead, "", "orders", true},
		{partitioned("orders", "k"), "orders", "k", true},
		{partitioned("events", "k"), "orders", "k", true}, // it is bound to the exchange orders
		{partitioned("", "orders.3"), "", "orders.3", true},
		{stray, "", "", false},
	} {
		if got, err := tc.message.again("dlq"); got.Exchange != tc.exchange || got.Key != tc.key || (err == nil) != tc.ok {
			t.Errorf("%+v: %+v, %v", tc, got, err)
		}
	}
}

// TestRefusedSettings: a refused setting is named; empty: none is refused.
func TestRefusedSettings(t *testing.T) {
	for _, tc := range []struct {
		r     Replay
		field string
	}{
		{Replay{}, ""},
		{Replay{Window: -1}, "Window"}, {Replay{Max: -1}, "Max"}, {Replay{Rate: -1}, "Rate"},
		{Replay{Window: 1001}, "Window"}, {Replay{Rate: math.NaN()}, "Rate"},
	} {
		if err := tc.r.validate(); refusedField(err) != tc.field {
			t.Errorf("%+v: %v", tc.r, err)
		}
	}
	for field, q := range map[string]Queue{"Name": {}, "Dial": {Name: "orders.dlq"}} {
		if err := q.validate(); refusedField(err) != field {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func refusedField(err error) string {
	var refused *FieldError
	if errors.As(err, &refused) {
		return refused.Field
	}
	return ""
}

func TestFilter(t *testing.T) {
	now := died.Add(time.Hour)
	m := messageOf(amqp.Table{"x-death": []any{death("orders", "rejected", 1)}, "tenant": int32(7)})
	m.Record = &counter.Record{Reason: "exit status 1: after 12 ms: \x1b[31mNo Stock of 17"}
	group := func(kind string) string {
		return reason.Key(kind, reason.Normalise("exit status 1: after 9 ms: \x1b[31mNo Stock of 4"))
	}
	stray := messageOf(nil)
	m.Queue, stray.Queue = "partitioned", ""
	for _, tc := range []struct {
		name        string
		f           Filter
		this, stray bool
	}{
		{"everything", Filter{}, true, true},
		{"id", Filter{IDs: []string{"16", "17"}}, true, true},
		{"fingerprint", Filter{IDs: []string{"16", messageOf(nil).Fingerprint}}, true, true},
		{"another id", Filter{IDs: []string{"1"}}, false, false},
		{"origin", Filter{Queue: "orders"}, true, false},
		{"origin of its partitions", Filter{Queue: "partitioned"}, true, false},
		{"another origin", Filter{Queue: "invoices"}, false, false},
		{"source", Filter{Source: "orders"}, true, true},
		{"source of its partitions", Filter{Source: "partitioned"}, true, true},
		{"another source", Filter{Source: "invoices"}, false, true},
		{"kind", Filter{Kind: KindFailed}, true, false},
		{"another kind", Filter{Kind: KindUnknown}, false, true},
		{"reason", Filter{Reason: "no stock"}, true, false},
		{"reason as its group is printed", Filter{Reason: "exit status 1: after <duration>: \\x1b[31mno STO…"}, true,
			false},
		{"group", Filter{Group: group("failed")}, true, false},
		{"group of another kind", Filter{Group: group("rejected")}, false, false},
		{"another reason", Filter{Reason: "no money"}, false, false},
		{"older", Filter{Older: 30 * time.Minute}, true, false},
		{"too young", Filter{Older: 2 * time.Hour}, false, false},
		{"newer", Filter{Newer: 2 * time.Hour}, true, false},
		{"too old", Filter{Newer: 30 * time.Minute}, false, false},
		{"both", Filter{Newer: 2 * time.Hour, Reason: "no money"}, false, false},
	} {
		if got := tc.f.Match(m, now); got != tc.this {
			t.Errorf("%s: %v", tc.name, got)
		}
		if got := tc.f.Match(stray, now); got != tc.stray {
			t.Errorf("%s: %v of a stray", tc.name, got)
		}
	}
}
