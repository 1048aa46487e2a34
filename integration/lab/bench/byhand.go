package bench

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/lab/ways"
	"github.com/strikesmq/strikes/internal/pause"
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
				t.tally.settle(1)
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
	var mu sync.Mutex
	var last *amqp.Delivery
	handled, pending := 0, 0
	flush := func() (err error) { // with mu locked
		if pending > 0 {
			err, pending = last.Ack(true), 0
		}
		return err
	}
	idle, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for pause.For(idle, ackIdle) {
			mu.Lock()
			_ = flush() // where it fails, the session has ended
			mu.Unlock()
		}
	}()
	return byHand(&ways.Way{Work: ways.ByHandToo(nil, func(_ context.Context, _ *ways.Session, d *amqp.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		last, handled, pending = d, handled+1, pending+1
		if pending < ackRun && handled < len(t.tally.attempts) {
			return nil
		}
		return flush()
	})})(ctx, t, conn)
}
