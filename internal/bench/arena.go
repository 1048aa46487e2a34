package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/topology"
)

// loop consumes until all messages are settled, and returns when the broker has every settlement.
type loop func(ctx context.Context, a *arena, conn *amqp.Connection) error

// arena is where one contestant runs once: on a queue of its own, filled beforehand.
type arena struct {
	*ground
	spec    topology.Spec
	workers int // handlers at once
	tally   *tally
}

// run measures from the first run of the handler until the consumer has ended.
func (a *arena) run(ctx context.Context, l loop) (s sample, err error) {
	if err := a.claim(); err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, a.remove()) }()
	if err := a.declare(ctx); err != nil {
		return s, err
	}
	if err := a.fill.PublishAll(ctx, a.tally.messages(a.spec.Queue)); err != nil {
		return s, err
	}
	conn, err := a.Dial(ctx)
	if err != nil {
		return s, err
	}
	before := a.CPU()
	err = l(ctx, a, conn)
	cpu := a.CPU().since(before)
	took := time.Since(time.Unix(0, a.tally.began.Load()))
	if err = errors.Join(err, closeConnection(conn)); err != nil {
		return s, err
	}
	if err := a.check(ctx); err != nil {
		return s, err
	}
	n := len(a.tally.runs)
	return sample{messages: n, deadLettered: a.tally.dead(), runs: a.tally.total(), rate: float64(n) / took.Seconds(), cpu: cpu}, nil
}

// claim names the queues, which must not exist. From then on they are the arena's, to be removed even if they are declared
// in part only.
func (a *arena) claim() error {
	a.spec.Queue = a.queueName()
	a.spec.DeadLetterQueue = a.spec.Queue + ".dlq"
	for _, queue := range []string{a.spec.Queue, a.spec.DeadLetterQueue} {
		exists := true
		if _, err := a.depth(queue); err != nil {
			var reply *amqp.Error
			if !errors.As(err, &reply) || reply.Code != amqp.NotFound {
				return err
			}
			exists = false
		}
		if exists {
			return fmt.Errorf("queue %q exists: it is left alone, name another", queue)
		}
	}
	return nil
}

func (a *arena) declare(ctx context.Context) error { return topology.Declare(ctx, a.admin, a.spec) }

// remove deletes what declare made, all or a part of it.
func (a *arena) remove() error {
	ch, err := a.admin.Channel()
	if err != nil {
		return fmt.Errorf("removing queue %q: %w", a.spec.Queue, err)
	}
	defer ch.Close()
	_, errQueue := ch.QueueDelete(a.spec.Queue, false, false, false)
	_, errDead := ch.QueueDelete(a.spec.DeadLetterQueue, false, false, false)
	if err := errors.Join(errQueue, errDead, ch.ExchangeDelete(a.spec.Queue+".dlx", false, false)); err != nil {
		return fmt.Errorf("removing queue %q: %w", a.spec.Queue, err)
	}
	return nil
}

// depth is the number of messages that are ready in a queue.
func (a *arena) depth(queue string) (int, error) {
	ch, err := a.admin.Channel()
	if err != nil {
		return 0, err
	}
	defer ch.Close()
	q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
	return q.Messages, err
}

// check accounts for every message: by the handler's tally, and by what the broker has in its queues.
func (a *arena) check(ctx context.Context) error {
	if err := a.tally.check(); err != nil {
		return err
	}
	if err := a.await(ctx, a.spec.DeadLetterQueue, a.tally.dead()); err != nil {
		return err
	}
	return a.await(ctx, a.spec.Queue, 0)
}

// arrival is how long a queue may take to come to its final depth.
const arrival = 10 * time.Second

func (a *arena) await(ctx context.Context, queue string, want int) error {
	ctx, cancel := context.WithTimeout(ctx, arrival)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		got, err := a.depth(queue)
		if err != nil || got == want {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("%d messages in queue %q, want %d: %w", got, queue, want, ctx.Err())
		}
	}
}
