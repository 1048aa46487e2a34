package bench

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/lab/ways"
)

// byHand is a loop with a way of the comparison.
func byHand(way *ways.Way) loop {
	return func(ctx context.Context, t *trial, _ *amqp.Connection) error {
		consuming, stop := t.untilDone(ctx)
		defer stop()
		err := way.Work(consuming, &ways.Client{
			Spec: ways.Spec{Way: way.Name, Queue: t.spec.Queue, AMQP: t.broker.URL, Redis: t.store.URL, Processes: 1,
				Concurrency: t.workers, Prefetch: prefetch, Patient: true},
			Handle: func(d *amqp.Delivery) error {
				err := t.tally.handle(d)
				if err != nil && t.tally.last(d) { // before the message can be delivered again
					return errLast
				}
				return err
			},
			Settled: func(handled error) {
				if handled == nil || handled == errLast { //nolint:errorlint // it is never wrapped
					t.tally.settle()
				}
			},
		})
		return errors.Join(err, ctx.Err())
	}
}

// errLast is the failure of a message's last attempt.
var errLast = errors.New("no such product in the catalogue, for the last time")

// incrAndDel also deletes the counter on every success, so that an id may be used again.
func incrAndDel() *ways.Way {
	incr := *ways.Find("incr")
	incr.Work = ways.ByHandToo(ways.Incr, func(ctx context.Context, s *ways.Session, d *amqp.Delivery) error {
		if err := s.Store.Del(ctx, ways.CounterKey(s, d)).Err(); err != nil {
			return err
		}
		return d.Ack(false)
	})
	return &incr
}

// ackMultiple acks half a prefetch together, and the rest with the last message.
func ackMultiple(ctx context.Context, t *trial, conn *amqp.Connection) error {
	handled := 0
	return byHand(&ways.Way{Work: ways.ByHandToo(nil, func(_ context.Context, _ *ways.Session, d *amqp.Delivery) error {
		if handled++; handled%(prefetch/2) != 0 && handled < len(t.tally.attempts) {
			return nil
		}
		return d.Ack(true)
	})})(ctx, t, conn)
}
