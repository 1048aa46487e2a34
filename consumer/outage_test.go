package consumer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

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

// TestLateStepsAtAStop: a late step is sent once more when Run returns, however soon after the last try.
func TestLateStepsAtAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, away, taken := newLate(), true, false
		l.add(func(context.Context) error {
			if away {
				return errDown
			}
			taken = true
			return nil
		}, nil)
		time.Sleep(lateFor / 2)
		synctest.Wait()
		away = false
		if l.close(); !taken {
			t.Error("it was not sent")
		}
	})
}
