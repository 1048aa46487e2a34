package consumer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestABackoffThatEndsItsGoroutine has the default backoff, and gives back the isolation lock.
func TestABackoffThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.isolation = newIsolation()
		b.store.suspect(t, "m1")
		b.Backoff = func(int) time.Duration { exitGoroutine(); return 0 }
		if outcome, err := b.Handle(t.Context(), b.delivery(true), boom); outcome != OutcomeRequeue || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		if !b.isolation.lock.TryAcquire(everything) {
			t.Error("the isolation lock is still held")
		}
	})
}

// TestAnObserverThatEndsItsGoroutine ends that of a function that settles, in which it is called.
func TestAnObserverThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Observer = observe(func(Event) { exitGoroutine() })
		if outcome, err := b.Handle(t.Context(), b.delivery(false), ok); outcome != OutcomeAck || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
	})
}

// exitingTracer ends the goroutine in which it is called, at the start or the end of an attempt.
type exitingTracer struct{ atStart bool }

func (e exitingTracer) AttemptStart(ctx context.Context, _ amqp.Delivery) context.Context {
	if e.atStart {
		exitGoroutine()
	}
	return ctx
}

func (e exitingTracer) AttemptEnd(context.Context, Event) {
	if !e.atStart {
		exitGoroutine()
	}
}

// TestATracerThatEndsItsGoroutine changes no attempt, and gives back the isolation lock.
func TestATracerThatEndsItsGoroutine(t *testing.T) {
	for _, atStart := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			b.isolation = newIsolation()
			b.store.suspect(t, "m1")
			b.Tracer = exitingTracer{atStart}
			if outcome, err := b.Handle(t.Context(), b.delivery(false), ok); outcome != OutcomeAck || err != nil {
				t.Errorf("at the start %v: %v, %v", atStart, outcome, err)
			}
			if !b.isolation.lock.TryAcquire(everything) {
				t.Errorf("at the start %v: the isolation lock is still held", atStart)
			}
		})
	}
}
