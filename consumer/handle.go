package consumer

import (
	"cmp"
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Handle makes attempts at one delivery with the Handler, counts the failed ones, and settles it: for programs with
// their own loop over the deliveries of a channel, and for tests of a Handler. vhost is that of the connection; if
// empty, "/". The channel must consume without auto-ack and be open. Call Handle once for each of its deliveries, from
// as many goroutines as handlers may run at the same time. Ordered is refused. The settings of a session have no
// effect: Concurrency, Prefetch, DelayAbove, Breaker, DrainTimeout, Check and Consuming.
//
// When ctx is done, the handler's context is cancelled, nothing is counted, and the outcome is OutcomeLeave. A delivery
// that is left comes back when its channel is closed, so close it.
//
// The error is nil unless the delivery was left for another reason than ctx: a field that is refused, ErrWaitedTooLong,
// or ErrSettlement.
func (c *Consumer) Handle(ctx context.Context, vhost string, d amqp.Delivery) (Outcome, error) {
	err := cmp.Or(c.complete(), c.refuseOrder(), c.Validate())
	if err == nil && d.Acknowledger == nil {
		err = fmt.Errorf("consumer: queue %q: the delivery has no Acknowledger: a channel's has, and in tests a type with "+
			"Ack, Nack and Reject", c.Queue)
	}
	if err != nil {
		return OutcomeLeave, err
	}
	return newSession(c.single(), vhost, nil).handle(ctx, d)
}

// refuseOrder refuses the settings that keep an order, each by its own name.
func (c *Consumer) refuseOrder() error {
	const want = " for Handle, which sees one delivery alone"
	switch {
	case c.Ordered:
		return refused(c.Queue, "Ordered", true, "false"+want)
	case c.Lane != nil:
		return refused(c.Queue, "Lane", "a function", "nil"+want)
	case c.HoldLanes:
		return refused(c.Queue, "HoldLanes", true, "false"+want)
	}
	return nil
}

// single returns a copy with defaults in place, for a session of one delivery.
func (c *Consumer) single() Consumer {
	one := c.withDefaults()
	one.Concurrency, one.Prefetch, one.Breaker = 1, 1, 0
	return one
}

func (s *session) handle(ctx context.Context, d amqp.Delivery) (Outcome, error) {
	s.prepare(ctx, ctx)
	handled := s.take(ctx, d)
	s.tasks.Wait()
	return handled.result.outcome, handled.result.err
}
