package consumer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestOutageHoldsAndCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.store.down.Store(true)
		time.AfterFunc(time.Minute, func() { b.store.down.Store(false) })
		if outcome, err := b.Handle(t.Context(), b.delivery(false), boom); outcome != OutcomeRequeue || err != nil {
			t.Fatalf("%v, %v", outcome, err)
		}
		b.expect(t, "nack requeue=true", `"" 1+0 marked false`)
		if n := b.store.steps.Load(); n > 100 {
			t.Errorf("%d steps in a minute: it spins", n)
		}
	})
}

func TestOutageHoldsARedelivery(t *testing.T) {
	for _, iso := range []Isolation{IsolationSuspects, IsolationOff} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			b.Isolation = iso
			b.store.down.Store(true)
			began := time.Now()
			time.AfterFunc(time.Minute, func() { b.store.down.Store(false) })
			outcome, err := b.Handle(t.Context(), b.delivery(true), func(context.Context, amqp.Delivery) error {
				if time.Since(began) < time.Minute {
					t.Error("it ran before the store was asked")
				}
				return nil
			})
			if outcome != OutcomeAck || err != nil {
				t.Errorf("%v, %v", outcome, err)
			}
		})
	}
}

func TestOutageTooLongDecidesNothing(t *testing.T) {
	for _, tc := range []struct {
		redelivered bool
		handler     Handler
	}{{false, boom}, {true, ok}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			b.store.down.Store(true)
			began := time.Now()
			outcome, err := b.Handle(t.Context(), b.delivery(tc.redelivered), tc.handler)
			if outcome != OutcomeLeave || !errors.Is(err, ErrWaitedTooLong) || !errors.Is(err, errDown) {
				t.Errorf("%v, %v", outcome, err)
			}
			if held := time.Since(began); held < 14*time.Minute || held > 15*time.Minute+3*time.Second {
				t.Errorf("held for %v, want half the consumer timeout", held)
			}
			b.expect(t, "", "none")
			time.Sleep(2 * lateFor) // the END of the redelivery, which may have been marked, is given up
		})
	}
}

func TestOutageDoesNotHoldAReject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.store.down.Store(true)
		time.AfterFunc(10*time.Second, func() {
			if got := strings.Join(b.acks.got, ", "); got != "nack requeue=false" {
				t.Errorf("settled after 10 s: %s", got)
			}
			b.store.down.Store(false)
		})
		outcome, err := b.Handle(t.Context(), b.delivery(false), func(context.Context, amqp.Delivery) error {
			return Reject(errBoom)
		})
		if outcome != OutcomeDeadLetter || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		b.expect(t, "nack requeue=false", "none")
		time.Sleep(lateFor)
		b.expect(t, "nack requeue=false", `"exhausted" 1+0 marked false`)
	})
}

func TestOutageDoesNotUndoASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		outcome, err := b.Handle(t.Context(), b.delivery(true), func(context.Context, amqp.Delivery) error {
			b.store.down.Store(true)
			return nil
		})
		if outcome != OutcomeAck || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		b.expect(t, "ack multiple=false", `"" 0+0 marked true`)
		b.store.down.Store(false)
		time.Sleep(lateFor)
		b.expect(t, "ack multiple=false", `"done" 0+0 marked false`)
	})
}

// TestAnAttemptIsClosedBeforeItsDeliveryGoesBack: the next receiver would take an open attempt for a crash.
func TestAnAttemptIsClosedBeforeItsDeliveryGoesBack(t *testing.T) {
	for _, tc := range []struct {
		away    time.Duration
		outcome Outcome
		err     error
		held    time.Duration
	}{
		{40 * time.Second, OutcomeRequeue, nil, 40 * time.Second},
		{time.Hour, OutcomeLeave, ErrWaitedTooLong, 45 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			b.ConsumerTimeout, b.HandlerTimeout = time.Minute, 30*time.Second
			b.isolation = newIsolation()
			if !b.isolation.lock.TryAcquire(everything) {
				t.Fatal("the lock is not free")
			}
			began := time.Now()
			time.AfterFunc(time.Second, func() { b.store.down.Store(true) })
			time.AfterFunc(tc.away, func() { b.store.down.Store(false) })
			outcome, err := b.Handle(t.Context(), b.delivery(true), ok)
			if held := time.Since(began); outcome != tc.outcome || !errors.Is(err, tc.err) ||
				(held-tc.held).Abs() > 10*time.Second {
				t.Errorf("%v, %v after %v; want %v, %v after %v", outcome, err, held, tc.outcome, tc.err, tc.held)
			}
			if tc.err == nil {
				b.expect(t, "nack requeue=true", `"" 0+0 marked false`)
			}
			time.Sleep(2 * lateFor) // a step that the store did not take is sent later, or given up
		})
	}
}

// TestStopInAnOutageIsMadeGood has an attempt stopped while the store is away: it must not stay open, or the next
// attempt counts a crash that never was.
func TestStopInAnOutageIsMadeGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.MaxRetries = -1
		ctx, stop := context.WithCancel(t.Context())
		outcome, err := b.Handle(ctx, b.delivery(true), func(ctx context.Context, _ amqp.Delivery) error {
			b.store.down.Store(true)
			stop()
			<-ctx.Done()
			return ctx.Err()
		})
		if outcome != OutcomeLeave || err != nil {
			t.Fatalf("%v, %v", outcome, err)
		}
		b.store.down.Store(false)
		time.Sleep(lateFor)
		b.expect(t, "", `"" 0+0 marked false`)
		if outcome, err := b.Handle(t.Context(), b.delivery(true), ok); outcome != OutcomeAck || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
	})
}
