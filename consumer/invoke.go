package consumer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// invoke calls the handler. It reports false if another goroutine goes on with the delivery, because the handler was
// abandoned or ended this one; the caller must not touch the delivery then. So no lock and no worker is given back
// here.
func (s *session) invoke(ctx context.Context, d *delivery) (returned bool) {
	c, cancel := s.newCall(d)
	traced := s.traced(c, d)
	watched := s.watch(ctx, c)
	failed := endedGoroutine
	defer func() {
		watched()
		mine := c.over.CompareAndSwap(false, true)
		switch {
		case !mine:
			s.isolation.abandoned.Add(-1)
		default:
			d.end(c, failed)
			if !returned {
				go s.deliver(ctx, d, stepEnded)
			}
		}
		cancel()
		returned = returned && mine
	}()
	failed = handle(traced, s.Handler, d.shown())
	return true
}

func (s *session) newCall(d *delivery) (*call, context.CancelFunc) {
	if d.reply.Limit == 0 {
		d.reply.Limit = s.limit()
	}
	d.number = d.reply.Counted() + 1
	c := &d.first
	if d.again() {
		c = &call{}
	}
	ctx, cancel := s.attemptContext()
	*c = call{
		Context: ctx, delivery: d, token: d.token, number: d.number, last: d.reply.Limit, fence: d.fence,
		isolated: d.grip.isolated(), began: time.Now(),
	}
	return c, cancel
}

// attemptContext returns the context of an attempt. Without a timeout it has no deadline: a handler that adds to a
// distant one would overflow.
func (s *session) attemptContext() (context.Context, context.CancelFunc) {
	if s.HandlerTimeout == math.MaxInt64 {
		return context.WithCancel(s.live)
	}
	return context.WithTimeoutCause(s.live, s.HandlerTimeout, errDeadline)
}

// handle calls the handler, and asks its error for all that is needed, where a panic ends only the attempt.
func handle(ctx context.Context, h Handler, d amqp.Delivery) (failed *handlerError) {
	defer func() {
		if v := recover(); v != nil {
			failed = panicked(v, debug.Stack())
		}
	}()
	return inspect(h(ctx, d)) // an error's methods may panic, too: a nil pointer of an error type
}

// abandonAfter is how long a handler has to return once its context is cancelled. What it does later is ignored.
const abandonAfter = 2 * time.Second

// watch abandons the handler of c if it still runs abandonAfter after its context ended. Call stop when the handler
// returns.
func (s *session) watch(ctx context.Context, c *call) (stop func() bool) {
	return context.AfterFunc(c, func() {
		time.AfterFunc(abandonAfter, func() {
			s.isolation.abandoned.Add(1) // before the handler can subtract it
			if c.over.CompareAndSwap(false, true) {
				s.abandon(ctx, c)
			} else {
				s.isolation.abandoned.Add(-1)
			}
		})
	})
}

// abandon goes on with the delivery of a handler that did not return when its context ended. The handler counts as
// running until it returns.
func (s *session) abandon(ctx context.Context, c *call) {
	err := fmt.Errorf("%w: %w", context.Cause(c), errAbandoned)
	text := err.Error()
	failed := &handlerError{err: err, message: text, text: text}
	c.delivery.end(c, failed)
	go s.deliver(ctx, c.delivery, stepEnded)
}

// mostStuck is how many abandoned handlers may run in the process for each handler of the Concurrency.
const mostStuck = 10

// checkStuck ends the session if too many abandoned handlers run in the process.
func (s *session) checkStuck() {
	if n := s.isolation.abandoned.Load(); n >= int64(mostStuck*s.Concurrency) {
		s.fail(fmt.Errorf("%w: queue %q: %d were abandoned at their deadlines and still run; restart the process", ErrStuck,
			s.Queue, n))
	}
}

var (
	errDeadline  = errors.New("the handler passed its deadline")
	errAbandoned = errors.New("the handler did not return after its context was cancelled, and was abandoned")
	errGoexit    = errors.New("the handler ended its goroutine instead of returning")
	errNoID      = errors.New("the message has no id, so it gets one attempt only")
)

// ErrSettled is returned by the Ack, Nack and Reject of a delivery inside a Handler: return nil to ack it, an error to
// have it retried, Reject(err) to dead-letter it.
var ErrSettled = errors.New("consumer: a Handler does not settle its delivery: return nil, an error, or Reject(err)")

// refusing takes the place of a delivery's channel.
type refusing struct{}

func (refusing) Ack(uint64, bool) error        { return ErrSettled }
func (refusing) Nack(uint64, bool, bool) error { return ErrSettled }
func (refusing) Reject(uint64, bool) error     { return ErrSettled }
