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
)

// publishers is how many goroutines publish, and how many messages the bare client has unconfirmed.
const publishers = 64

// publish measures how fast n messages are confirmed. One more before them opens the connection.
func publish(send func(context.Context, *trial, int) (time.Duration, error)) measurement {
	return func(ctx context.Context, t *trial) (sample, error) {
		n, before := len(t.tally.attempts), t.cpu()
		took, err := send(ctx, t, n)
		used := t.cpu().since(before)
		if err != nil {
			return sample{}, err
		}
		return sample{n, took, used}, t.await(ctx, t.spec.Queue, n+1)
	}
}

func publishStrikes(ctx context.Context, t *trial, n int) (took time.Duration, err error) {
	dial := publisher.BufferedDialer(t.broker.URL, amqp.Config{})
	p, err := publisher.New(dial, nil) //nolint:contextcheck // Close ends it
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	body := make([]byte, bodySize)
	publishOne := func(ctx context.Context) error {
		_, err := p.Publish(ctx, "", t.spec.Queue, amqp.Publishing{Body: body})
		return err
	}
	if err := publishOne(ctx); err != nil {
		return 0, err
	}
	var published atomic.Int64
	began := time.Now()
	callers, ctx := errgroup.WithContext(ctx)
	for range publishers {
		callers.Go(func() error {
			for published.Add(1) <= int64(n) {
				if err := publishOne(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = callers.Wait()
	return time.Since(began), err
}

// publishBare publishes as a careful program does without strikes: one goroutine publishes persistent, mandatory
// messages with an id, another waits for their confirms in order.
func publishBare(ctx context.Context, t *trial, n int) (took time.Duration, err error) {
	conn, err := amqp.Dial(t.broker.URL)
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
	if err := pipeline(ctx, ch, t.spec.Queue, 1); err != nil {
		return 0, err
	}
	began := time.Now()
	err = pipeline(ctx, ch, t.spec.Queue, n)
	took = time.Since(began)
	select {
	case r := <-returned:
		err = errors.Join(err, fmt.Errorf("returned: %s", r.ReplyText))
	default:
	}
	return took, err
}

func pipeline(ctx context.Context, ch *amqp.Channel, queue string, n int) error {
	body := make([]byte, bodySize)
	unconfirmed := make(chan *amqp.DeferredConfirmation, publishers)
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		for confirm := range unconfirmed {
			if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
				return errors.Join(fmt.Errorf("message %d: confirmed: %v", confirm.DeliveryTag, ok), err)
			}
		}
		return nil
	})
	both.Go(func() error {
		defer close(unconfirmed)
		for range n {
			msg := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}
			publisher.Stamp(&msg)
			confirm, err := ch.PublishWithDeferredConfirm("", queue, true, false, msg)
			if err != nil {
				return err
			}
			select {
			case unconfirmed <- confirm:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return both.Wait()
}
