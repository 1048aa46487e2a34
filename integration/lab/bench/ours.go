package bench

import (
	"cmp"
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/rig"
)

// withoutDelay is the DelayAbove of the other contestants, on whose virtual host the delay queues may exist.
const withoutDelay = -1

// ours consumes with some settings of strikes, and those that all contestants have in common. It has no Observer where
// no message fails: the handler knows which messages will be acked.
func ours(settings consumer.Consumer) loop {
	return func(ctx context.Context, t *trial, conn *amqp.Connection) error {
		c := settings
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
				t.tally.settle()
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
}

// database is a store in a database that writes each COMMIT to the disk.
type database struct {
	*rig.Store
	counts *counter.Counter
}

// inDatabase consumes with the counts in a kind of database, which starts when it is needed.
func inDatabase(kind string) loop {
	return func(ctx context.Context, t *trial, conn *amqp.Connection) error {
		if t.databases[kind] == nil {
			store, err := rig.OpenStore(ctx, kind, map[string][]string{"postgres": {"-c", "fsync=on"},
				"mysql": {"--innodb-flush-log-at-trx-commit=1"}}[kind]...)
			if err != nil {
				return err
			}
			counts, err := rig.Dial(store.URL, "")
			if err != nil {
				return errors.Join(err, store.Close())
			}
			t.databases[kind] = &database{store, counts}
		}
		return ours(consumer.Consumer{Prefetch: prefetch, Counter: t.databases[kind].counts})(ctx, t, conn)
	}
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
		s.settle()
	}
}
