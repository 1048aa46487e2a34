package bench

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
)

// orderedPrefetch is for retries in place.
const orderedPrefetch = 30

func strikes(ctx context.Context, a *arena, conn *amqp.Connection) error {
	return a.consume(ctx, conn, consumer.Consumer{Prefetch: Prefetch})
}

// strikesInMemory asks no store: what is left is what the settlements cost.
func strikesInMemory(ctx context.Context, a *arena, conn *amqp.Connection) error {
	return a.consume(ctx, conn, consumer.Consumer{Counter: counter.NewMemory(nil), Prefetch: Prefetch})
}

// strikesInPlace keeps the order with a prefetch above one.
func strikesInPlace(ctx context.Context, a *arena, conn *amqp.Connection) error {
	return a.consume(ctx, conn, consumer.Consumer{Ordered: true, Prefetch: orderedPrefetch})
}

// strikesOneAtATime keeps the order by having no other message out.
func strikesOneAtATime(ctx context.Context, a *arena, conn *amqp.Connection) error {
	return a.consume(ctx, conn, consumer.Consumer{Ordered: true, Retry: consumer.Requeue, Prefetch: 1})
}

// consume runs c with what all contestants have in common. Nobody observes it where no message fails: the handler knows
// what will be acked.
func (a *arena) consume(ctx context.Context, conn *amqp.Connection, c consumer.Consumer) error {
	c.Queue, c.MaxRetries, c.Concurrency = a.spec.Queue, Retries, a.workers
	if c.Counter == nil {
		c.Counter = a.counts
	}
	c.Backoff = func(int) time.Duration { return 0 }
	c.Handler = func(_ context.Context, d amqp.Delivery) error { return a.tally.handle(&d) }
	if a.tally.percent > 0 {
		c.Observer = settlements{a.tally}
	} else {
		c.Handler = func(_ context.Context, d amqp.Delivery) error {
			err := a.tally.handle(&d)
			a.tally.settle(1)
			return err
		}
	}
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-a.tally.done:
		case <-consuming.Done():
		}
		stop()
	}()
	if err := c.Consume(consuming, conn); err != nil {
		return err
	}
	return ctx.Err()
}

// settlements counts what is done with.
type settlements struct{ *tally }

func (s settlements) Observe(_ context.Context, e consumer.Event) {
	if e.Decision == consumer.Ack || e.Decision == consumer.DeadLetter {
		s.settle(1)
	}
}
