package consumer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

func TestSuspectIsIsolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		m := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: "m1"}, Token: "died"}
		need(t, errOf(b.store.Start(t.Context(), m, counter.ModeShared, 4)))
		var running atomic.Int64
		busy := func(context.Context, amqp.Delivery) error {
			running.Add(1)
			defer running.Add(-1)
			time.Sleep(time.Second)
			return nil
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				d := b.delivery(false)
				d.MessageId = fmt.Sprint("other", i)
				quiet := newBench()
				quiet.Consumer.Observer, quiet.Counter = nil, b.Counter
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				if outcome, err := quiet.Handle(t.Context(), d, busy); outcome != OutcomeAck || err != nil {
					t.Errorf("%v, %v", outcome, err)
				}
			})
		}
		wg.Go(func() {
			time.Sleep(500 * time.Millisecond)
			outcome, err := b.Handle(t.Context(), b.delivery(true), func(context.Context, amqp.Delivery) error {
				for range 10 {
					if n := running.Load(); n != 0 {
						t.Errorf("%d others run beside a suspect", n)
					}
					time.Sleep(100 * time.Millisecond)
				}
				return nil
			})
			if outcome != OutcomeAck || err != nil {
				t.Errorf("%v, %v", outcome, err)
			}
		})
		wg.Wait()
		if got := (*b.events)[0]; got != "isolate" {
			t.Errorf("events: %v", *b.events)
		}
	})
}

// TestKillerIsBounded has a message kill every process, each with an isolation lock of its own. A handler that does not
// end is the death of its process: the attempt stays open.
func TestKillerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.HandlerTimeout, b.Observer = -1, nil
		ctx, stop := context.WithCancel(t.Context())
		release := make(chan struct{})
		var attempts atomic.Int32
		for i := 0; ; i++ {
			if i > 20 {
				t.Fatal("it is never dead-lettered")
			}
			process := b
			process.isolation = newIsolation()
			ended := make(chan Outcome, 1)
			go func() {
				outcome, _ := process.Handle(ctx, b.delivery(i > 0), func(context.Context, amqp.Delivery) error {
					attempts.Add(1)
					<-release
					return errBoom
				})
				ended <- outcome
			}()
			synctest.Wait()
			if int(attempts.Load()) == i {
				if outcome := <-ended; outcome != OutcomeDeadLetter {
					t.Errorf("%v", outcome)
				}
				break
			}
		}
		if got := attempts.Load(); got != 6 {
			t.Errorf("%d attempts, want MaxRetries + 3 = 6", got)
		}
		b.expect(t, "nack requeue=false", `"exhausted" 0+4 marked false`)
		b.store.down.Store(true)
		stop()
		close(release)
		time.Sleep(2 * lateFor)
	})
}

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
	})
}
