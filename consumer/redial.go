package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"
)

// steady is how long a session has to last before the next one is tried without delay.
const steady = 10 * time.Second

// openTimeout is how long a broker may take to accept a consumer. A basic.consume on a quorum queue that was just recovering
// from a kill was never answered (measured on 3.10.8), and amqp091-go waits for ever.
const openTimeout = 10 * time.Second

// Run keeps one session on the broker until ctx is done: it dials, consumes, and after a lost session dials again, after
// 100 ms at first and 10 s at most. Every session has a connection of its own, which Run closes.
//
// It returns nil once ctx is done and everything is settled, and ErrUncleanStop if that could not be made sure of. It returns an error at once where another session would not
// help: a field that is refused, and, until a first session has consumed, credentials, a queue or a topology that the
// broker or Check refuses, or a store that cannot count. After that only ctx ends it: what is missing in the middle of a
// broker's restart comes back.
func (c *Consumer) Run(ctx context.Context, dial func(context.Context) (*amqp.Connection, error)) error {
	if dial == nil {
		return fmt.Errorf("consumer: queue %q: dial is nil: it opens a connection for each session", c.Queue)
	}
	delays := backoff.NewExponentialBackOff()
	delays.InitialInterval, delays.MaxInterval = 100*time.Millisecond, 10*time.Second
	consumed := false
	for {
		began := time.Now()
		err := c.runSession(ctx, dial, func() { consumed = true })
		if ctx.Err() != nil {
			if errors.Is(err, ErrUncleanStop) {
				return err
			}
			return nil
		}
		if !consumed && isRefused(err) {
			return err
		}
		if time.Since(began) > steady {
			delays.Reset()
		}
		delay := delays.NextBackOff()
		c.log().Warn("session ended; another follows", "queue", c.Queue, "in", delay, "error", err)
		if !pause(ctx, delay) {
			return nil
		}
	}
}

// runSession dials and consumes once. It calls consuming when the broker has accepted the consumer.
func (c *Consumer) runSession(ctx context.Context, dial func(context.Context) (*amqp.Connection, error), consuming func()) error {
	conn, err := dial(ctx)
	if err != nil {
		return fmt.Errorf("consumer: queue %q: dialling: %w", c.Queue, err)
	}
	if conn == nil {
		return refusal{fmt.Errorf("consumer: queue %q: dial returned neither a connection nor an error", c.Queue)}
	}
	hangUp := func() { _ = conn.CloseDeadline(time.Now().Add(closeTimeout)) }
	defer hangUp()
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	answered := context.AfterFunc(opening, hangUp)
	defer answered()
	s, err := c.prepared(conn)
	if err != nil {
		return err
	}
	if err := s.check(ctx, conn); err != nil {
		return err
	}
	s.consuming = func() { answered(); consuming() }
	return s.consume(ctx, conn)
}

// isRefused reports whether the broker, the store or a check said no, as opposed to being away.
func isRefused(err error) bool {
	var r refusal
	if errors.As(err, &r) {
		return true
	}
	var answer *amqp.Error
	return errors.As(err, &answer) && (answer.Code == amqp.AccessRefused || answer.Code == amqp.NotAllowed)
}

func (c *Consumer) log() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}
