package consumer

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWaitForTheLockIsBounded shows that a delivery that waits for the isolation lock returns after the longest hold.
func TestWaitForTheLockIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.store.suspect(t, "m1")
		b.ConsumerTimeout, b.HandlerTimeout = time.Minute, 30*time.Second
		b.isolation = newIsolation()
		if !b.isolation.lock.TryAcquire(1) {
			t.Fatal("the lock is not free")
		}
		began := time.Now()
		outcome, err := b.Handle(t.Context(), b.delivery(true), ok)
		if outcome != OutcomeRequeue || err != nil || time.Since(began) > 31*time.Second {
			t.Errorf("%v, %v after %v; want it requeued after 30s", outcome, err, time.Since(began))
		}
		b.expect(t, "nack requeue=true", `"" 0+0 marked true`)
		if len(*b.events) == 0 || (*b.events)[0] != "isolate" {
			t.Errorf("events: %v, want the suspicion first", *b.events)
		}
	})
}
