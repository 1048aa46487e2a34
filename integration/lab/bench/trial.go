package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/topology"
)

// loop consumes until all messages are settled, and returns when the broker has every settlement.
type loop func(ctx context.Context, t *trial, conn *amqp.Connection) error

// trial is one contestant in one round, with a queue of its own.
type trial struct {
	*bench
	spec    topology.Spec
	workers int // handlers in parallel
	tally   *tally
}

// newTrial names and declares the queue, which must not exist. The caller removes it, also after an error.
func newTrial(ctx context.Context, b *bench, c *Case) (*trial, error) {
	t := &trial{bench: b, spec: c.spec, workers: 1}
	if mayFail(c.Contest) && !c.spec.SingleActiveConsumer {
		t.workers = b.concurrency
	}
	t.spec.Type, t.spec.Queue = c.Queue, b.queueName()
	t.spec.DeadLetterQueue = t.spec.Queue + ".dlq"
	for _, queue := range []string{t.spec.Queue, t.spec.DeadLetterQueue} {
		var reply *amqp.Error
		switch _, err := t.depth(queue); {
		case err == nil:
			return nil, fmt.Errorf("queue %q exists and is left alone", queue)
		case !errors.As(err, &reply) || reply.Code != amqp.NotFound:
			return nil, err
		}
	}
	return t, topology.Declare(ctx, b.admin, t.spec)
}

// consuming measures a loop on a queue that was filled beforehand, from the first attempt until the consumer has ended.
func consuming(l loop) measurement {
	return func(ctx context.Context, b *bench, c *Case, n int) (s sample, err error) {
		t, err := newTrial(ctx, b, c)
		defer func() { err = errors.Join(err, t.remove()) }()
		if err != nil {
			return s, err
		}
		t.tally = newTally(n, c.Failing)
		t.tally.ordered = t.spec.SingleActiveConsumer
		if err := b.fill.PublishAll(ctx, t.tally.messages(t.spec.Queue)); err != nil {
			return s, err
		}
		conn, err := b.dial(ctx)
		if err != nil {
			return s, err
		}
		before := b.cpu()
		err = l(ctx, t, conn)
		used := b.cpu().since(before)
		took := time.Since(time.Unix(0, t.tally.began.Load()))
		if err = errors.Join(err, closeConnection(conn)); err != nil {
			return s, err
		}
		return sample{n, t.tally.dead(), t.tally.total(), float64(n) / took.Seconds(), used}, t.check(ctx)
	}
}

// remove deletes what newTrial declared, all or a part of it.
func (t *trial) remove() error {
	if t == nil {
		return nil
	}
	ch, err := t.admin.Channel()
	if err == nil {
		defer ch.Close()
		_, err = ch.QueueDelete(t.spec.Queue, false, false, false)
		_, errDead := ch.QueueDelete(t.spec.DeadLetterQueue, false, false, false)
		err = errors.Join(err, errDead, ch.ExchangeDelete(t.spec.Queue+".dlx", false, false))
	}
	if err != nil {
		return fmt.Errorf("removing queue %q: %w", t.spec.Queue, err)
	}
	return nil
}

// depth returns the number of messages that are ready in a queue.
func (t *trial) depth(queue string) (int, error) {
	ch, err := t.admin.Channel()
	if err != nil {
		return 0, err
	}
	defer ch.Close()
	q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
	return q.Messages, err
}

// check accounts for every message, by the tally and by the depths of the queues.
func (t *trial) check(ctx context.Context) error {
	if err := t.tally.check(); err != nil {
		return err
	}
	return errors.Join(t.await(ctx, t.spec.DeadLetterQueue, t.tally.dead()), t.await(ctx, t.spec.Queue, 0))
}

// await waits until a queue has its final depth.
func (t *trial) await(ctx context.Context, queue string, want int) error {
	return poll.Until(ctx, 10*time.Second, "the final depth of queue "+queue, func() error {
		got, err := t.depth(queue)
		if err == nil && got != want {
			err = fmt.Errorf("%d messages, want %d", got, want)
		}
		return err
	})
}
