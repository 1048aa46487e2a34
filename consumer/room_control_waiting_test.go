package consumer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestWaitingIsReported: operators see the messages that a process holds although they are not counted, for how long
// and why, until they are handled.
func TestWaitingIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Backoff = func(int) time.Duration { return 3 * time.Second }
		b.Observer = nil // the bench's is for one delivery at a time
		var away atomic.Bool
		away.Store(true)
		handler := func(context.Context, amqp.Delivery) error {
			if away.Load() {
				return NotCounted(errors.New("endpoint away"))
			}
			return nil
		}
		s := b.session(Consumer{Handler: handler, Concurrency: 2, Prefetch: 2})
		_, release := heard(s)
		defer release()
		s.prepare(t.Context(), t.Context())
		other := b.delivery(false)
		other.MessageId, other.DeliveryTag = "m2", 2
		s.take(t.Context(), b.delivery(false))
		s.take(t.Context(), other)
		time.Sleep(time.Minute)
		now, err := b.store.State(t.Context(), "/", "orders")
		if err != nil || len(now.Consumers) != 1 {
			t.Fatal(now.Consumers, err)
		}
		if h := now.Consumers[0].Waiting; h.Messages != 2 || h.For < 55*time.Second || h.For > time.Minute ||
			h.Why != "endpoint away" {
			t.Errorf("%+v", h)
		}
		away.Store(false)
		s.tasks.Wait()
		time.Sleep(2 * time.Second)
		now, err = b.store.State(t.Context(), "/", "orders")
		if err != nil || len(now.Consumers) != 1 || now.Consumers[0].Waiting.Messages != 0 {
			t.Errorf("%+v, %v", now.Consumers, err)
		}
	})
}

// TestWaitingEndsWithACountedFailure: a message whose failure was counted is in a record, so it is not held uncounted
// during its backoff.
func TestWaitingEndsWithACountedFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Backoff = func(int) time.Duration { return time.Minute }
		o := &outcomes{errs: []error{RetryAfter(NotCounted(errBoom), time.Second), errBoom}}
		s := b.session(Consumer{Handler: o.handle, Concurrency: 1, Prefetch: 1})
		_, release := heard(s)
		defer release()
		s.prepare(t.Context(), t.Context())
		s.take(t.Context(), b.delivery(false))
		time.Sleep(30 * time.Second)
		now, err := b.store.State(t.Context(), "/", "orders")
		if err != nil || len(o.attempts) != 2 || len(now.Consumers) != 1 || now.Consumers[0].Waiting.Messages != 0 {
			t.Errorf("%d attempts, %+v, %v", len(o.attempts), now.Consumers, err)
		}
		s.tasks.Wait()
	})
}
