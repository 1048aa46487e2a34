package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// publishers is how many goroutines publish, and how many messages the bare client has in flight.
const publishers = 64

// publishing measures how fast n messages are confirmed. One more before them sees to the connection.
func publishing(kind topology.Type, publish func(context.Context, *arena, int) (time.Duration, error)) func(context.Context, *ground, int) (sample, error) {
	return func(ctx context.Context, g *ground, n int) (s sample, err error) {
		a := &arena{ground: g, spec: topology.Spec{Type: kind}}
		if err := a.claim(); err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, a.remove()) }()
		if err := a.declare(ctx); err != nil {
			return s, err
		}
		before := a.CPU()
		took, err := publish(ctx, a, n)
		cpu := a.CPU().since(before)
		if err != nil {
			return s, err
		}
		if err := a.await(ctx, a.spec.Queue, n+1); err != nil {
			return s, err
		}
		return sample{messages: n, rate: float64(n) / took.Seconds(), cpu: cpu}, nil
	}
}

func publishStrikes(ctx context.Context, a *arena, n int) (took time.Duration, err error) {
	p, err := publisher.New(a.DialPublisher, nil) //nolint:contextcheck // Close ends it
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	body := make([]byte, BodySize)
	if _, err := p.Publish(ctx, "", a.spec.Queue, amqp.Publishing{Body: body}); err != nil {
		return 0, err
	}
	var published atomic.Int64
	began := time.Now()
	callers, ctx := errgroup.WithContext(ctx)
	for range publishers {
		callers.Go(func() error {
			for published.Add(1) <= int64(n) {
				if _, err := p.Publish(ctx, "", a.spec.Queue, amqp.Publishing{Body: body}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = callers.Wait()
	return time.Since(began), err
}

// publishBare is what a careful program does without this module: one goroutine publishes persistent, mandatory messages
// with an id, another waits for their confirms in order.
func publishBare(ctx context.Context, a *arena, n int) (took time.Duration, err error) {
	conn, err := a.Dial(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeConnection(conn)) }()
	ch, err := conn.Channel()
	if err != nil {
		return 0, err
	}
	if err := ch.Confirm(false); err != nil {
		return 0, err
	}
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	if err := pipeline(ctx, ch, a.spec.Queue, 1); err != nil {
		return 0, err
	}
	began := time.Now()
	err = pipeline(ctx, ch, a.spec.Queue, n)
	took = time.Since(began)
	select {
	case r := <-returned:
		err = errors.Join(err, fmt.Errorf("returned: %s", r.ReplyText))
	default:
	}
	return took, err
}

func pipeline(ctx context.Context, ch *amqp.Channel, queue string, n int) error {
	body := make([]byte, BodySize)
	inFlight := make(chan *amqp.DeferredConfirmation, publishers)
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		for confirm := range inFlight {
			if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
				return errors.Join(fmt.Errorf("message %d: confirmed: %v", confirm.DeliveryTag, ok), err)
			}
		}
		return nil
	})
	both.Go(func() error {
		defer close(inFlight)
		for range n {
			msg := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}
			publisher.Stamp(&msg)
			confirm, err := ch.PublishWithDeferredConfirm("", queue, true, false, msg)
			if err != nil {
				return err
			}
			select {
			case inFlight <- confirm:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return both.Wait()
}
