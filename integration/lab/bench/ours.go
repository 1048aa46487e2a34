package bench

import (
	"cmp"
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
)

// orderedPrefetch is for retries in place.
const orderedPrefetch = 30

func consume(ctx context.Context, t *trial, conn *amqp.Connection) error {
	return t.consume(ctx, conn, consumer.Consumer{Prefetch: prefetch})
}

// consumeInMemory uses no store: the rest is the cost of the settlements.
func consumeInMemory(ctx context.Context, t *trial, conn *amqp.Connection) error {
	return t.consume(ctx, conn, consumer.Consumer{Counter: counter.NewMemory(nil), Prefetch: prefetch})
}

// consumeInPlace keeps the order with a prefetch above one.
func consumeInPlace(ctx context.Context, t *trial, conn *amqp.Connection) error {
	return t.consume(ctx, conn, consumer.Consumer{Ordered: true, Prefetch: orderedPrefetch})
}

// consumeOneAtATime keeps the order with a prefetch of 1.
func consumeOneAtATime(ctx context.Context, t *trial, conn *amqp.Connection) error {
	return t.consume(ctx, conn, consumer.Consumer{Ordered: true, Retry: consumer.RetryRequeue, Prefetch: 1})
}

// consumeHoldingLanes blocks the lane of a dead letter. There is none, so no lane is blocked.
func consumeHoldingLanes(ctx context.Context, t *trial, conn *amqp.Connection) error {
	lane := func(amqp.Delivery) string { return "one" } // the tally wants the order of all messages
	return t.consume(ctx, conn, consumer.Consumer{Ordered: true, HoldLanes: true, Lane: lane, Prefetch: orderedPrefetch})
}

// consumeDelay has the delay queues, and no message for it.
func consumeDelay(ctx context.Context, t *trial, conn *amqp.Connection) error {
	return t.consume(ctx, conn, consumer.Consumer{DelayAbove: consumer.DefaultDelayAbove, Prefetch: prefetch})
}

// withoutDelay is the DelayAbove of the other contestants, on whose virtual host the delay queues may exist.
const withoutDelay = -1

// consume runs c with what all contestants have in common. It has no Observer where no message fails: the handler knows
// what will be acked.
func (t *trial) consume(ctx context.Context, conn *amqp.Connection, c consumer.Consumer) error {
	c.Queue, c.MaxRetries, c.Concurrency = t.spec.Queue, retries, t.workers
	c.DelayAbove = cmp.Or(c.DelayAbove, withoutDelay)
	if c.Counter == nil {
		c.Counter = t.counts
	}
	c.Backoff = func(int) time.Duration { return 0 }
	c.Handler = func(_ context.Context, d amqp.Delivery) error { return t.tally.handle(&d) }
	if t.tally.percent > 0 {
		c.Observer = settlements{t.tally}
	} else {
		c.Handler = func(_ context.Context, d amqp.Delivery) error {
			err := t.tally.handle(&d)
			t.tally.settle(1)
			return err
		}
	}
	consuming, stop := t.untilDone(ctx)
	defer stop()
	if err := c.Consume(consuming, conn); err != nil {
		return err
	}
	return ctx.Err()
}

// untilDone returns a context that ends when all messages are settled.
func (t *trial) untilDone(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		select {
		case <-t.tally.done:
		case <-ctx.Done():
		}
		stop()
	}()
	return ctx, stop
}

// settlements counts the settled messages.
type settlements struct{ *tally }

func (s settlements) Observe(_ context.Context, e consumer.Event) {
	if e.Outcome == consumer.OutcomeAck || e.Outcome == consumer.OutcomeDeadLetter {
		s.settle(1)
	}
}
