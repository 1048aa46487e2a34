package consumer

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestABackoffThatEndsItsGoroutine has the default backoff, and gives back what the isolated attempt holds.
func TestABackoffThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Isolation, b.isolation = IsolationStrict, newIsolation()
		b.Backoff = func(int) time.Duration { exitGoroutine(); return 0 }
		if outcome, err := b.Handle(t.Context(), b.delivery(false), boom); outcome != OutcomeRequeue || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		if !b.isolation.lock.TryAcquire(everything) {
			t.Error("the isolation lock is still held")
		}
	})
}
