package compare

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
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

// spec is what a consumer process is told.
type spec struct {
	Way, Queue, AMQP, Redis, History string
	Number, Processes                int
	Concurrency, Prefetch            int
	Order                            bool          // one message at a time
	Wait                             time.Duration // before a retry, where the way can wait
}

// client consumes a queue with a way.
type client struct {
	spec
	way    *way
	handle func(*amqp.Delivery) error
	copies func(d *amqp.Delivery, copied string) // is told of a copy before it is published; nil: nobody is
}

func (c *client) dial(ctx context.Context) (*amqp.Connection, error) {
	return consumer.Dialer(c.AMQP, amqp.Config{Heartbeat: heartbeat, Dial: amqp.DefaultDial(5 * time.Second)})(ctx)
}

// onFailure settles a delivery whose handler failed.
type onFailure func(context.Context, *session, *amqp.Delivery) error

// session is one connection of a way that is made by hand, and another one to publish on.
type session struct {
	*client
	in, out *amqp.Channel
	store   *redis.Client
}

// byHand consumes without strikes until ctx is done, with a new session whenever one ends.
func byHand(fail onFailure) func(context.Context, *client) error {
	return func(ctx context.Context, c *client) error {
		store, err := dialStore(c.Redis, c.Way)
		if err != nil {
			return err
		}
		defer store.Close()
		for ctx.Err() == nil {
			// an error has ended the session, and what was not settled is redelivered
			_ = c.serve(ctx, &session{client: c, store: store}, fail)
			pause.For(ctx, redialAfter)
		}
		return nil
	}
}

func (c *client) serve(ctx context.Context, s *session, fail onFailure) error {
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
		names = append(names, c.Queue+c.way.other)
	}
	for _, name := range names {
		deliveries, err := s.in.Consume(name, name, false, false, false, false, nil)
		if err != nil {
			return err
		}
		for range c.Concurrency {
			workers.Go(func() error { return s.work(running, deliveries, fail) })
		}
	}
	<-running.Done()
	for _, name := range names {
		err = errors.Join(err, s.in.Cancel(name, false)) // it flushes the acks, too
	}
	if err != nil || ctx.Err() == nil {
		hangUp(in) // what is prefetched returns
	}
	return errors.Join(workers.Wait(), err)
}

func hangUp(conn *amqp.Connection) { _ = conn.CloseDeadline(time.Now().Add(time.Second)) }

var errEnded = errors.New("the deliveries ended")

// work handles deliveries until they end or one cannot be settled. What comes after the stop returns with the session.
func (s *session) work(ctx context.Context, deliveries <-chan amqp.Delivery, fail onFailure) error {
	for d := range deliveries {
		if ctx.Err() != nil {
			continue
		}
		err := s.handle(&d)
		if err == nil {
			err = d.Ack(false)
		} else {
			err = fail(ctx, s, &d)
		}
		if err != nil {
			return err
		}
	}
	return errEnded
}

// copy publishes a message again and waits until the broker has it.
func (s *session) copy(ctx context.Context, queue string, d *amqp.Delivery) error {
	confirm, err := s.out.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, s.again(d))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
		return errors.Join(fmt.Errorf("publishing message %s again: confirmed: %v", d.MessageId, ok), err)
	}
	return nil
}

// again is a copy of a message with one more retry in its header.
func (c *client) again(d *amqp.Delivery) amqp.Publishing {
	headers := maps.Clone(d.Headers)
	if headers == nil {
		headers = amqp.Table{}
	}
	headers[retriedHeader] = int32(retried(d) + 1) //nolint:gosec // a handful
	copied := uuid.NewString()
	headers[copyHeader] = copied
	if c.copies != nil {
		c.copies(d, copied)
	}
	return amqp.Publishing{Headers: headers, DeliveryMode: amqp.Persistent, MessageId: d.MessageId, Body: d.Body}
}
