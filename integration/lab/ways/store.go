package ways

import (
	"context"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/work"
	"github.com/strikesmq/strikes/internal/pause"
)

const (
	counterTTL  = 7 * 24 * time.Hour
	replyWithin = 300 * time.Millisecond // of the store
	outageWait  = 100 * time.Millisecond // before a message returns that could not be counted
)

// Incr counts a failure. While the store is away nothing is counted, and the message returns after a moment.
func Incr(ctx context.Context, s *Session, d *amqp.Delivery) error {
	var failures *redis.IntCmd
	key := CounterKey(s, d)
	_, err := s.Store.Pipelined(ctx, func(p redis.Pipeliner) error {
		failures = p.Incr(ctx, key)
		p.Expire(ctx, key, counterTTL)
		return nil
	})
	if err != nil {
		pause.For(ctx, outageWait)
		return d.Nack(false, true)
	}
	return d.Nack(false, failures.Val() <= Retries)
}

// CounterKey is the key of a message's counter by hand.
func CounterKey(s *Session, d *amqp.Delivery) string { return s.Queue + ":" + d.MessageId }

// dialStore returns the client of a way: with go-redis's own retries, or without.
func (c *Client) dialStore() (*redis.Client, error) {
	opts, err := redis.ParseURL(c.Redis)
	if err != nil {
		return nil, err
	}
	opts.ReadTimeout, opts.DialTimeout = replyWithin, replyWithin
	if c.Patient {
		opts.ReadTimeout, opts.DialTimeout = time.Minute, time.Minute
	}
	if c.Way != "incr-retry" {
		opts.MaxRetries = -1
	}
	return redis.NewClient(opts), nil
}

// lanes are how many streams strikes keeps in order beside each other.
const lanes = 16

// requeueing has a breaker after so many failed messages; 0: none.
func requeueing(breaker int) func(context.Context, *Client) error {
	return func(ctx context.Context, c *Client) error {
		s := consumer.Consumer{Concurrency: c.Concurrency, Prefetch: c.Prefetch, Breaker: breaker}
		if c.Order {
			s.Ordered, s.Retry, s.Prefetch = true, consumer.RetryRequeue, 1
		}
		return c.consume(ctx, &s)
	}
}

// ordering has one active process, so it alone gets the handlers of all.
func ordering(ctx context.Context, c *Client) error {
	s := consumer.Consumer{Ordered: true}
	if !c.Order {
		s.Concurrency, s.Prefetch, s.Lane = c.Concurrency*c.Processes, c.Prefetch*c.Processes, lane
	}
	return c.consume(ctx, &s)
}

func lane(d amqp.Delivery) string {
	return strconv.Itoa(work.Read(d.Body).Seq % lanes)
}

// consume completes the settings of strikes and consumes until ctx is done.
func (c *Client) consume(ctx context.Context, s *consumer.Consumer) error {
	counts, err := counter.Dial(c.Redis, nil)
	if err != nil {
		return err
	}
	defer counts.Close()
	s.Queue, s.Counter, s.MaxRetries = c.Queue, counts, Retries
	s.HandlerTimeout, s.DrainTimeout = handlerTimeout, drainTimeout
	s.Backoff = func(failed int) time.Duration { return c.Wait << (failed - 1) }
	s.Handler = func(_ context.Context, d amqp.Delivery) error { return c.Handle(&d) }
	return s.Run(ctx, func(context.Context) (*amqp.Connection, error) { return c.dial(ctx) })
}
