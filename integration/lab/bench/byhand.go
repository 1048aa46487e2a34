package bench

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/lab/ways"
)

// byHand is a loop with a way of the comparison.
func byHand(way *ways.Way) loop {
	return func(ctx context.Context, t *trial, _ *amqp.Connection) error {
		handle := func(d *amqp.Delivery) error {
			err := t.tally.handle(d)
			if err != nil && t.tally.last(d) { // before the message can be delivered again
				return errLast
			}
			return err
		}
		return t.consume(ctx, way, handle, func(handled error) {
			if handled == nil || handled == errLast { //nolint:errorlint // it is never wrapped
				t.tally.settle()
			}
		})
	}
}

// consume consumes with a way until all messages are settled.
func (t *trial) consume(ctx context.Context, way *ways.Way, handle func(*amqp.Delivery) error,
	settled func(handled error)) error {
	consuming, stop := t.untilDone(ctx)
	defer stop()
	err := way.Work(consuming, &ways.Client{
		Spec: ways.Spec{Way: way.Name, Queue: t.spec.Queue, AMQP: t.broker.URL, Redis: t.store.URL, Processes: 1,
			Concurrency: t.workers, Prefetch: prefetch, Patient: true},
		Handle: handle, Settled: settled,
	})
	return errors.Join(err, ctx.Err())
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

const (
	ackRun  = prefetch / 2
	ackIdle = 5 * time.Millisecond
)

// ackMultiple is tuned by hand: it acks half a prefetch together, or fewer every 5 ms and with the last message.
func ackMultiple(ctx context.Context, t *trial, conn *amqp.Connection) error {
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
	idle := time.NewTicker(ackIdle)
	defer idle.Stop()
	var last amqp.Delivery
	for handled, pending := 0, 0; handled < len(t.tally.attempts) || pending > 0; {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return errEnded
			}
			if err := t.tally.handle(&d); err != nil {
				return err
			}
			last, handled, pending = d, handled+1, pending+1
			if pending < ackRun && handled < len(t.tally.attempts) {
				continue
			}
		case <-idle.C:
			if pending == 0 {
				continue
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := last.Ack(true); err != nil {
			return err
		}
		pending = 0
	}
	// as Consumer does: basic.cancel, then close, or a quorum queue loses the last acks
	return errors.Join(ch.Cancel(tag, false), ch.Close())
}

var errEnded = errors.New("the deliveries ended before all messages were settled")
