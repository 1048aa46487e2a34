package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/topology"
)

// trial is one contestant in one round, with a queue of its own.
type trial struct {
	*bench
	spec    topology.Spec
	workers int // handlers in parallel
	tally   *tally
}

// newTrial declares the queue for n messages. The caller deletes it.
func (b *bench) newTrial(ctx context.Context, c *Case, n int) (*trial, error) {
	b.queues++
	t := &trial{bench: b, spec: c.spec, workers: 1, tally: newTally(n, c.failing)}
	t.tally.ordered = c.spec.SingleActiveConsumer
	if mayFail(c.contest) && !t.tally.ordered {
		t.workers = concurrency
	}
	t.spec.Type, t.spec.Queue = c.queue, "bench-"+strconv.Itoa(b.queues)
	t.spec.DeadLetterQueue = t.spec.Queue + ".dlq"
	return t, b.broker.OnConnection(func(conn *amqp.Connection) error { return topology.Declare(ctx, conn, t.spec) })
}

// loop consumes until all messages are settled, and returns when the broker has every settlement.
type loop func(ctx context.Context, t *trial, conn *amqp.Connection) error

// measure measures a loop on a queue that is filled beforehand, from the first attempt until the consumer has ended.
func (t *trial) measure(ctx context.Context, l loop) (s sample, err error) {
	if err := t.broker.Publish(ctx, t.tally.messages(t.spec.Queue)); err != nil {
		return s, err
	}
	conn, err := consumer.Dialer(t.broker.URL, amqp.Config{})(ctx)
	if err != nil {
		return s, err
	}
	before := t.cpu()
	err = l(ctx, t, conn)
	s = sample{len(t.tally.attempts), time.Since(time.Unix(0, t.tally.began.Load())), t.cpu()}
	for i := range before {
		s.cpu[i] -= before[i]
	}
	_ = conn.CloseDeadline(time.Now().Add(10 * time.Second)) // the depths say whether it had an effect
	if err = errors.Join(err, t.tally.check()); err != nil {
		return s, err
	}
	return s, errors.Join(t.await(ctx, t.spec.DeadLetterQueue, t.tally.dead()), t.await(ctx, t.spec.Queue, 0))
}

// await waits until a queue has its final depth.
func (t *trial) await(ctx context.Context, queue string, want int) error {
	return poll.Until(ctx, 10*time.Second, "the final depth of queue "+queue, func() error {
		got, err := t.broker.Queue(queue)
		if err == nil && got.Messages != want {
			err = fmt.Errorf("%d messages, want %d", got.Messages, want)
		}
		return err
	})
}
