package consumer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// harmfulTracer calls functions at the start and the end of an attempt, and returns no context.
type harmfulTracer struct{ start, end func() }

func (h harmfulTracer) AttemptStart(context.Context, amqp.Delivery) context.Context {
	h.start()
	return nil
}
func (h harmfulTracer) AttemptEnd(context.Context, Event) { h.end() }

// TestHarmfulUserFunctions: a function of the user that panics, or ends its goroutine, changes no attempt. The message
// kills no process by that, and the isolation lock is given back.
func TestHarmfulUserFunctions(t *testing.T) {
	none := func() {}
	fails := func(ctx context.Context, _ amqp.Delivery) error {
		if ctx == nil {
			t.Error("the handler has no context")
		}
		return errBoom
	}
	for how, harm := range map[string]func(){"panics": func() { panic("harm") }, "ends its goroutine": exitGoroutine} {
		for name, set := range map[string]func(*Consumer){
			"Backoff":                  func(c *Consumer) { c.Backoff = func(int) time.Duration { harm(); return 0 } },
			"Observer":                 func(c *Consumer) { c.Observer = observe(func(Event) { harm() }) },
			"Tracer, at the start":     func(c *Consumer) { c.Tracer = harmfulTracer{harm, none} },
			"Tracer, at the end":       func(c *Consumer) { c.Tracer = harmfulTracer{none, harm} },
			"Tracer, with no contexts": func(c *Consumer) { c.Tracer = harmfulTracer{none, none} },
		} {
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				b.isolation = newIsolation()
				b.store.suspect(t, "m1")
				set(b.Consumer)
				if outcome, err := b.Handle(t.Context(), b.delivery(true), fails); outcome != OutcomeRequeue || err != nil {
					t.Errorf("%s %s: %v, %v", name, how, outcome, err)
				}
				b.expect(t, "nack requeue=true", `"" 1+0 marked false`)
				if !b.isolation.lock.TryAcquire(everything) {
					t.Errorf("%s %s: the isolation lock is still held", name, how)
				}
			})
		}
	}
}
