package bench

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"
)

// worker settles deliveries until there are no more.
type worker func(deliveries <-chan amqp.Delivery) error

var errEnded = errors.New("the deliveries ended before all messages were settled")

// serve consumes as a program without strikes does, with the workers of the contest.
func (t *trial) serve(ctx context.Context, conn *amqp.Connection, prefetch int, work worker) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	const tag = "bench"
	deliveries, err := ch.Consume(t.spec.Queue, tag, false, false, false, false, nil)
	if err != nil {
		return err
	}
	workers, ctx := errgroup.WithContext(ctx)
	for range t.workers {
		workers.Go(func() error {
			if err := work(deliveries); err != nil {
				return err
			}
			if t.tally.settled.Load() < int64(len(t.tally.attempts)) && ctx.Err() == nil {
				return errEnded
			}
			return nil
		})
	}
	select {
	case <-t.tally.done:
	case <-ctx.Done():
	}
	// as Consumer does: basic.cancel, then close, or a quorum queue loses the last acks
	err = ch.Cancel(tag, false)
	return errors.Join(workers.Wait(), err, ch.Close())
}

const (
	ackRun  = prefetch / 2
	ackIdle = 5 * time.Millisecond
)

// ackMultiple is tuned by hand: it acks half a prefetch together, or fewer every 5 ms and with the last message.
func ackMultiple(ctx context.Context, t *trial, conn *amqp.Connection) error {
	return t.serve(ctx, conn, prefetch, func(deliveries <-chan amqp.Delivery) error {
		idle := time.NewTicker(ackIdle)
		defer idle.Stop()
		var last amqp.Delivery
		handled, pending := 0, 0
		flush := func() error {
			if pending == 0 {
				return nil
			}
			err := last.Ack(true)
			t.tally.settle(pending)
			pending = 0
			return err
		}
		for {
			var err error
			select {
			case d, ok := <-deliveries:
				if !ok {
					return flush()
				}
				if err := t.tally.handle(&d); err != nil {
					return err
				}
				last = d
				handled++
				if pending++; pending == ackRun || handled == len(t.tally.attempts) {
					err = flush()
				}
			case <-idle.C:
				err = flush()
			}
			if err != nil {
				return err
			}
		}
	})
}
