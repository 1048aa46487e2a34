package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/topology"
)

// breakable is a route that a test breaks.
type breakable struct {
	*route
	broken atomic.Bool
	checks atomic.Int64
	unsure atomic.Bool // a check reports nothing
}

func newBreakable() *breakable {
	b := &breakable{}
	b.route = &route{queue: "orders", logger: slog.New(slog.DiscardHandler), check: func(context.Context) error {
		b.checks.Add(1)
		switch {
		case b.unsure.Load():
			return errors.Join(errUnknown, errDown)
		case b.broken.Load():
			return errNoRoute
		}
		return nil
	}}
	return b
}

var errNoRoute = &topology.RefusedError{Queue: "orders",
	Findings: []topology.Finding{{Code: "dead-letter-exchange-missing"}}}

func TestDeadLettersAreHeldWhileTheRouteIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBench(), newBreakable()
		b.route, b.MaxRetries = r.route, -1
		r.broken.Store(true)
		time.Sleep(routeEvery)
		time.AfterFunc(time.Minute, func() {
			b.expect(t, "", `"exhausted" 1+0 marked false`)
			r.broken.Store(false)
		})
		began := time.Now()
		if outcome, err := b.Handle(t.Context(), b.delivery(false), boom); outcome != OutcomeDeadLetter || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		if held := time.Since(began); held < time.Minute || held > time.Minute+routeEvery {
			t.Errorf("held for %v of a minute", held)
		}
		if r.checks.Load() > 8 {
			t.Errorf("%d checks in a minute", r.checks.Load())
		}
		b.expect(t, "nack requeue=false", `"exhausted" 1+0 marked false`)
		if got := (*b.events)[0]; got != "hold" {
			t.Errorf("events: %v", *b.events)
		}
	})
}

// TestADeadLetterThatWasHeldTooLong ends its session. A requeue would count towards a delivery limit. However late it
// comes back, it is not attempted again.
func TestADeadLetterThatWasHeldTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBench(), newBreakable()
		b.route, b.MaxRetries = r.route, -1
		r.broken.Store(true)
		began := time.Now()
		outcome, err := b.Handle(t.Context(), b.delivery(false), boom)
		if refused := new(topology.RefusedError); outcome != OutcomeLeave || !errors.As(err, &refused) {
			t.Errorf("%v, %v", outcome, err)
		}
		if held := time.Since(began); held != routeHold {
			t.Errorf("held for %v, want %v", held, routeHold)
		}
		r.broken.Store(false)
		time.Sleep(8 * time.Minute)
		if outcome, err := b.Handle(t.Context(), b.delivery(true), func(context.Context, amqp.Delivery) error {
			t.Error("it was attempted again")
			return nil
		}); outcome != OutcomeDeadLetter || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
	})
}

// TestARejectedRedeliveryThatWasHeldTooLong ends its session too, though the store took neither its FAIL nor its END in
// time.
func TestARejectedRedeliveryThatWasHeldTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBench(), newBreakable()
		b.route = r.route
		r.broken.Store(true)
		time.Sleep(routeEvery)
		outcome, err := b.Handle(t.Context(), b.delivery(true), func(context.Context, amqp.Delivery) error {
			b.store.down.Store(true)
			time.AfterFunc(time.Minute/2, func() { b.store.down.Store(false) })
			return Reject(errBoom)
		})
		if refused := new(topology.RefusedError); outcome != OutcomeLeave || !errors.As(err, &refused) {
			t.Errorf("%v, %v", outcome, err)
		}
		b.expect(t, "", `"exhausted" 1+0 marked false`)
	})
}

// lostFail is a store that takes every step but FAIL while it is lossy.
type lostFail struct {
	*store
	lossy atomic.Bool
}

func (l *lostFail) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	if l.lossy.Load() {
		return counter.Reply{}, errDown
	}
	return l.store.Fail(ctx, a, f)
}

// TestALateRejectIsNotTakenBack: the store does not take the FAIL of a rejected redelivery until the session has ended.
// An END at that end would close the attempt as one that is not counted, and the message would run again.
func TestALateRejectIsNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBench(), newBreakable()
		b.route = r.route
		lost := &lostFail{store: b.store}
		b.Counter = lost
		lost.lossy.Store(true)
		r.broken.Store(true)
		time.Sleep(routeEvery)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		outcome, err := b.Handle(ctx, b.delivery(true), func(context.Context, amqp.Delivery) error {
			return Reject(errBoom)
		})
		if outcome != OutcomeLeave || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		lost.lossy.Store(false)
		time.Sleep(time.Minute)
		b.expect(t, "", `"exhausted" 1+0 marked false`)
	})
}

// TestRejectAtAStopIsNotSentUnchecked: the check is due, and the stop ends it.
func TestRejectAtAStopIsNotSentUnchecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBench(), newBreakable()
		b.route = r.route
		r.broken.Store(true)
		ctx, stop := context.WithCancel(t.Context())
		outcome, err := b.Handle(ctx, b.delivery(false), func(context.Context, amqp.Delivery) error {
			stop()
			return Reject(errBoom)
		})
		if outcome != OutcomeLeave || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		b.expect(t, "", `"exhausted" 1+0 marked false`)
	})
}

// TestACheckThatHangs holds dead letters no longer than one that answers.
func TestACheckThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBench(), newBreakable()
		b.route, b.MaxRetries = r.route, -1
		hung := make(chan struct{})
		defer close(hung)
		r.check = func(context.Context) error { <-hung; return nil }
		began := time.Now()
		if outcome, err := b.Handle(t.Context(), b.delivery(false), boom); outcome != OutcomeDeadLetter || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		if held := time.Since(began); held > routeTimeout+bound.LastReply {
			t.Errorf("held for %v", held)
		}
	})
}

func TestRouteIsCheckedSeldomAndOnlyBelievedWhenItTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBreakable()
		r.checked = time.Now()
		look := func(what string, want error, checks int64) {
			t.Helper()
			if _, broken := r.state(t.Context()); !errors.Is(broken, want) || r.checks.Load() != checks {
				t.Errorf("%s: %v after %d checks; want %v after %d", what, broken, r.checks.Load(), want, checks)
			}
		}
		r.broken.Store(true)
		look("just checked", nil, 0)
		time.Sleep(routeEvery)
		look("due", errNoRoute, 1)
		look("just checked again", errNoRoute, 1)
		r.unsure.Store(true)
		time.Sleep(routeEvery)
		look("nothing is known: it stays broken", errNoRoute, 2)
		r.unsure.Store(false)
		r.broken.Store(false)
		time.Sleep(routeEvery)
		look("whole", nil, 3)
		r.unsure.Store(true)
		time.Sleep(routeEvery)
		look("nothing is known: it stays whole", nil, 4)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.broken.Store(true)
		time.Sleep(routeEvery)
		if _, broken := r.state(ctx); !errors.Is(broken, errUnchecked) {
			t.Errorf("a check that was cancelled is believed: %v", broken)
		}
		if _, broken := (*route)(nil).state(t.Context()); broken != nil {
			t.Error(broken)
		}
	})
}
