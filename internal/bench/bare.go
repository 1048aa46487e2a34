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

// serve consumes as a program without this module does, with so many workers as the contest grants.
func (a *arena) serve(ctx context.Context, conn *amqp.Connection, work worker) error {
	return a.serveSome(ctx, conn, Prefetch, work)
}

// serveSome is serve with a prefetch of its own.
func (a *arena) serveSome(ctx context.Context, conn *amqp.Connection, prefetch int, work worker) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	const tag = "bench"
	deliveries, err := ch.Consume(a.spec.Queue, tag, false, false, false, false, nil)
	if err != nil {
		return err
	}
	workers, ctx := errgroup.WithContext(ctx)
	for range a.workers {
		workers.Go(func() error {
			if err := work(deliveries); err != nil {
				return err
			}
			if a.tally.settled.Load() < int64(len(a.tally.runs)) && ctx.Err() == nil {
				return errEnded
			}
			return nil
		})
	}
	select {
	case <-a.tally.done:
	case <-ctx.Done():
	}
	// as Consumer does: basic.cancel, then close, or a quorum queue loses the last acks
	err = ch.Cancel(tag, false)
	return errors.Join(workers.Wait(), err, ch.Close())
}

// ackEach is the loop of every tutorial.
func ackEach(ctx context.Context, a *arena, conn *amqp.Connection) error {
	return a.serve(ctx, conn, func(deliveries <-chan amqp.Delivery) error {
		for d := range deliveries {
			if err := a.tally.handle(&d); err != nil {
				return err
			}
			if err := d.Ack(false); err != nil {
				return err
			}
			a.tally.settle(1)
		}
		return nil
	})
}

const (
	ackRun  = Prefetch / 2
	ackIdle = 5 * time.Millisecond
)

// ackMultiple is tuned by hand: it acks half a prefetch at once, or what there is every 5 ms, or with the last message.
func ackMultiple(ctx context.Context, a *arena, conn *amqp.Connection) error {
	return a.serve(ctx, conn, func(deliveries <-chan amqp.Delivery) error {
		idle := time.NewTicker(ackIdle)
		defer idle.Stop()
		var last amqp.Delivery
		handled, pending := 0, 0
		flush := func() error {
			if pending == 0 {
				return nil
			}
			err := last.Ack(true)
			a.tally.settle(pending)
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
				if err := a.tally.handle(&d); err != nil {
					return err
				}
				last = d
				handled++
				if pending++; pending == ackRun || a.tally.handled(handled) {
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
