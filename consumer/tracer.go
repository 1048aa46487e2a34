package consumer

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A Tracer follows attempts: a trace has a span for each. Many goroutines may call it at the same time.
type Tracer interface {
	// AttemptStart is called before the handler, which gets the context that AttemptStart returns. That must be derived
	// from ctx, in which AttemptFrom finds the attempt. The delivery cannot be settled.
	AttemptStart(ctx context.Context, d amqp.Delivery) context.Context

	// AttemptEnd is called with that context when the handler has returned or was abandoned. The Event has the Cause and
	// the Err of a failed attempt. It has no Outcome, which the store decides; an Observer gets that.
	AttemptEnd(ctx context.Context, e Event)
}

// traced returns the context for the handler.
func (s *settings) traced(c *call, d *delivery) context.Context {
	if s.Tracer == nil {
		return c
	}
	d.trace = c
	s.guard("Tracer", func() {
		if ctx := s.Tracer.AttemptStart(c, d.shown()); ctx != nil {
			d.trace = ctx
		}
	})
	return d.trace
}

// traceEnd is called once for each attempt, when its handler has ended.
func (s *settings) traceEnd(d *delivery) {
	if s.Tracer == nil {
		return
	}
	e := s.completed(d, Event{Cause: d.outcome.cause, Err: d.outcome.err})
	s.guard("Tracer", func() { s.Tracer.AttemptEnd(d.trace, e) })
}
