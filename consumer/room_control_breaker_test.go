package consumer

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWaitingAtTheBreaker: while the breaker is open, all messages that have failed without being counted wait, and
// stay reported however often they are tried.
func TestWaitingAtTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, 1, Consumer{Breaker: 2, Prefetch: 4, Concurrency: 2})
		o.setAway(true)
		p := o.start()
		_, release := heard(p.s)
		defer release()
		o.publish("a", "b", "c", "d")
		for at := range 4 {
			time.Sleep(30 * time.Second)
			now, err := o.store.State(t.Context(), "/", "orders")
			if err != nil || len(now.Consumers) != 1 || now.Consumers[0].Waiting.Messages != 4 ||
				now.Consumers[0].Waiting.Why != errOutage.Error() {
				t.Errorf("after %d half minutes: %+v, %v; want four waiting messages", at+1, now.Consumers, err)
			}
		}
		o.setAway(false)
		o.until(time.Minute, func() bool { return len(o.done) == 4 })
		time.Sleep(2 * time.Second)
		now, err := o.store.State(t.Context(), "/", "orders")
		if err != nil || len(now.Consumers) != 1 || now.Consumers[0].Waiting.Messages != 0 {
			t.Errorf("after the outage: %+v, %v", now.Consumers, err)
		}
		o.end()
	})
}
