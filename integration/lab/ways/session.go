package ways

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/pause"
)

const (
	heartbeat      = 2 * time.Second
	handlerTimeout = 10 * time.Second
	drainTimeout   = 2 * time.Second
	confirmWithin  = 10 * time.Second
	redialAfter    = 100 * time.Millisecond
)

// Spec says how to consume.
type Spec struct {
	Way, Queue, AMQP, Redis          string
	Processes, Concurrency, Prefetch int
	Order                            bool          // one message at a time
	Wait                             time.Duration // before a retry, where the way can wait
	Patient                          bool          // the servers have no faults: wait for a slow one
}

// Client consumes a queue with a way.
type Client struct {
	Spec
	Handle  func(*amqp.Delivery) error
	Settled func(handled error) // is told of a delivery that was settled by hand; may be nil
}

func (c *Client) dial(ctx context.Context) (*amqp.Connection, error) {
	beat := heartbeat
	if c.Patient {
		beat = time.Minute
	}
	return consumer.Dialer(c.AMQP, amqp.Config{Heartbeat: beat, Dial: amqp.DefaultDial(5 * time.Second)})(ctx)
}

// Settle settles a delivery.
type Settle func(context.Context, *Session, *amqp.Delivery) error

// Session is one connection of a way that is made by hand, and another one to publish on.
type Session struct {
	*Client
	Store   *redis.Client
	in, out *amqp.Channel
	ok      Settle // after a success; nil: ack
	fail    Settle // after a failure
}

// ByHand consumes without strikes until ctx is done, with a new session whenever one ends.
func ByHand(fail Settle) func(context.Context, *Client) error { return ByHandToo(fail, nil) }

// ByHandToo is ByHand with ok, which settles a delivery whose handler succeeded.
func ByHandToo(fail, ok Settle) func(context.Context, *Client) error {
	return func(ctx context.Context, c *Client) error {
		store, err := c.dialStore()
		if err != nil {
			return err
		}
		defer store.Close()
		for ctx.Err() == nil {
			// an error has ended the session, and unsettled deliveries are redelivered
			_ = c.serve(ctx, &Session{Client: c, Store: store, ok: ok, fail: fail})
			pause.For(ctx, redialAfter)
		}
		return nil
	}
}

func (c *Client) serve(ctx context.Context, s *Session) error {
	in, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer hangUp(in)
	out, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer hangUp(out)
	if s.out, err = out.Channel(); err != nil {
		return err
	}
	if err := s.out.Confirm(false); err != nil {
		return err
	}
	if s.in, err = in.Channel(); err != nil {
		return err
	}
	if err := s.in.Qos(c.Prefetch, 0, false); err != nil {
		return err
	}
	workers, running := errgroup.WithContext(ctx)
	names := []string{c.Queue}
	if c.Way == "side-queue" {
		names = append(names, c.Queue+sideEnding)
	}
	for _, name := range names {
		deliveries, err := s.in.Consume(name, name, false, false, false, false, nil)
		if err != nil {
			return err
		}
		for range c.Concurrency {
			workers.Go(func() error { return s.work(running, deliveries) })
		}
	}
	<-running.Done()
	for _, name := range names {
		err = errors.Join(err, s.in.Cancel(name, false)) // it flushes the acks, too
	}
	if err != nil || ctx.Err() == nil {
		hangUp(in) // the prefetched messages return
	}
	return errors.Join(workers.Wait(), err, s.in.Close())
}

func hangUp(conn *amqp.Connection) { _ = conn.CloseDeadline(time.Now().Add(time.Second)) }

var errEnded = errors.New("the deliveries ended")

// work handles deliveries until they end or one cannot be settled. Deliveries after the stop return with the session.
func (s *Session) work(ctx context.Context, deliveries <-chan amqp.Delivery) error {
	for d := range deliveries {
		if ctx.Err() != nil {
			continue
		}
		var err error
		handled := s.Handle(&d)
		switch {
		case handled != nil:
			err = s.fail(ctx, s, &d)
		case s.ok != nil:
			err = s.ok(ctx, s, &d)
		default:
			err = d.Ack(false)
		}
		if err != nil {
			return err
		}
		if s.Settled != nil {
			s.Settled(handled)
		}
	}
	return errEnded
}

// copy publishes a message again and waits until the broker has it.
func (s *Session) copy(ctx context.Context, queue string, d *amqp.Delivery) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmWithin) // else a stop would leave two of it
	defer cancel()
	confirm, err := s.out.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, again(d))
	if err != nil {
		return err
	}
	if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
		return errors.Join(fmt.Errorf("publishing message %s again: confirmed: %v", d.MessageId, ok), err)
	}
	return nil
}

// again is a copy of a message with one more retry in its header.
func again(d *amqp.Delivery) amqp.Publishing {
	headers := amqp.Table{}
	maps.Copy(headers, d.Headers)
	headers[retriedHeader] = int32(retried(d) + 1)
	return amqp.Publishing{Headers: headers, DeliveryMode: amqp.Persistent, MessageId: d.MessageId, Body: d.Body}
}
