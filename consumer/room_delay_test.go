package consumer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/delay"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
)

// TestCopyOfForeignHeaders: the copy of a message for a delay queue is tied to it. Headers that count as absent on the
// message must not count on its copy.
func TestCopyOfForeignHeaders(t *testing.T) {
	type read struct {
		Generation, Position string
		CopyNumber, Fence    int64
	}
	for name, tc := range map[string]struct {
		id   string // of the message that the headers were written for
		want read
	}{
		"its own":            {"m1", read{"1@1700000000 header:g", "1.1", 3, 1_700_000_001_000_000}},
		"of another message": {"m2", read{"1@1700000000", "", 3, 1_700_000_001_000_000}},
	} {
		from := amqp.Table{GenerationHeader: "g", broker.PositionHeader: "1.1", broker.CopyHeader: int64(2),
			FenceHeader: int64(9), "mine": "kept"}
		from["x-death"] = []any{death("orders", "rejected", int64(1), time.Unix(1_700_000_000, 0))}
		d := &amqp.Delivery{MessageId: "m1", Headers: written(from, tc.id)}
		ours := broker.ReadHeaders(d.Headers, "orders", "m1", nil)
		copied := delay.Copy(d, ours, delay.Fields{Queue: "orders", Generation: ours.Generation(), CopyNumber: 3,
			Fence: max(carriedFence(ours), 5)}).Headers
		h := broker.ReadHeaders(copied, "orders", "m1", nil)
		if diff := cmp.Diff(tc.want, read{h.Generation(), h.Position(), h.CopyNumber(), h.Fence()}); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if copied["mine"] != "kept" || copied["x-death"] != nil {
			t.Errorf("%s: %v", name, copied)
		}
	}
}

// TestCopyKeepsItsRoute: a copy says with which exchange and routing key its message was published, however often it is
// copied. The message of each row came so.
func TestCopyKeepsItsRoute(t *testing.T) {
	for _, route := range [][2]string{{"", "orders"}, {"events", "order.paid"}, {"events", ""}, {"events", "orders"}} {
		d := amqp.Delivery{MessageId: "m1", Exchange: route[0], RoutingKey: route[1], Headers: amqp.Table{
			broker.CopyExchangeHeader: "of another message", broker.CopyKeyHeader: "x"}}
		for range 3 {
			ours := broker.ReadHeaders(d.Headers, "orders", "m1", nil)
			exchange, key := ours.Route(d.Exchange, d.RoutingKey)
			if got := [2]string{exchange, key}; got != route {
				t.Errorf("%q: %q", route, got)
			}
			d.Exchange, d.RoutingKey = exchange, key
			copied := delay.Copy(&d, ours, delay.Fields{Queue: "orders", CopyNumber: ours.CopyNumber() + 1})
			d = amqp.Delivery{MessageId: "m1", Exchange: broker.DelayExchange, RoutingKey: "orders", Headers: copied.Headers}
		}
	}
}

// TestAMoveThatIsRepeatedIsOneFailure: the process's own streak of failures, which a breaker has, counts a message
// once, however often its copy is refused.
func TestAMoveThatIsRepeatedIsOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		s := b.session(Consumer{Handler: func(context.Context, amqp.Delivery) error {
			return RetryAfter(errBoom, time.Hour)
		}})
		sent, failed := 0, 0
		r := find[*delayRoom](s.rooms)
		r.above, r.send = time.Minute, func(context.Context, string, string, amqp.Publishing) error {
			if sent++; sent < 4 {
				return errDown
			}
			return nil
		}
		s.failed = func(*delivery) { failed++ }
		if outcome, err := s.handle(t.Context(), b.delivery(false)); outcome != OutcomeMove || err != nil {
			t.Fatalf("%v, %v", outcome, err)
		}
		if sent != 4 || failed != 1 {
			t.Errorf("%d failures after %d copies, want 1 after 4", failed, sent)
		}
	})
}

// stopsInFail is a store during whose FAIL the session is stopped.
type stopsInFail struct {
	*store
	stop func()
}

func (s stopsInFail) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	s.stop()
	return s.store.Fail(ctx, a, f)
}

// TestNoMoveAfterAStop: the store asks for a move, and the session has been stopped. No copy is published, and the
// message returns to its queue with the count.
func TestNoMoveAfterAStop(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	b := newBench()
	s := b.session(Consumer{Counter: stopsInFail{b.store, stop}, Handler: func(context.Context, amqp.Delivery) error {
		return RetryAfter(errBoom, time.Hour)
	}})
	r := find[*delayRoom](s.rooms)
	r.above, r.send = time.Minute, func(context.Context, string, string, amqp.Publishing) error {
		t.Error("a copy was published after the stop")
		return nil
	}
	if outcome, _ := s.handle(ctx, b.delivery(false)); outcome != OutcomeLeave {
		t.Errorf("the message has the outcome %v", outcome)
	}
	b.expect(t, "", `"" 1+0 marked false`)
}
