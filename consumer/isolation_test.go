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

func TestSuspectRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		m := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: "m1"}, Token: "died"}
		if _, err := b.store.Start(t.Context(), m, counter.ModeShared, 4); err != nil {
			t.Fatal(err)
		}
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
				quiet := *b.Settler
				quiet.Observer = nil
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				if outcome, err := quiet.Handle(t.Context(), d, busy); outcome != Acked || err != nil {
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
			if outcome != Acked || err != nil {
				t.Errorf("%v, %v", outcome, err)
			}
		})
		wg.Wait()
		if got := (*b.events)[0]; got != "isolate" {
			t.Errorf("events: %v", *b.events)
		}
	})
}

// TestKillerIsBounded replays what a message that kills every process leaves behind: a marker each time it was asked for.
func TestKillerIsBounded(t *testing.T) {
	for _, tc := range []struct {
		iso  Isolation
		runs int
	}{{IsolateSuspects, 6}, {Strict, 4}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			b.Isolation = tc.iso
			runs := 0
			for i := 0; ; i++ {
				if i > 20 {
					t.Fatal("it is never dead-lettered")
				}
				set, err := b.prepared()
				if err != nil {
					t.Fatal(err)
				}
				a := set.receive(b.delivery(i > 0))
				if set.advance(t.Context(), a); a.next == stepDone {
					if a.outcome != DeadLettered {
						t.Fatalf("%v", a.outcome)
					}
					break
				}
				died := false
				dies := func(context.Context, amqp.Delivery) error { died = true; return nil }
				if a.next == stepRunAlone { // START exclusive is part of try
					set.isolation.undecided.Release(1) // by the death of the process
					a.undecided, a.locked, a.mode = false, true, counter.ModeIsolated
					if set.start(t.Context(), a); a.next == stepDeadLetter {
						set.advance(t.Context(), a)
						break
					}
				}
				_ = dies(t.Context(), a.delivery)
				if died {
					runs++
				}
			}
			if runs != tc.runs {
				t.Errorf("isolation %d: %d runs, want %d", tc.iso, runs, tc.runs)
			}
			b.expect(t, "nack requeue=false", `"exhausted" 0+4 marked false`)
		})
	}
}

// TestWaitForTheLockIsBounded shows that a delivery which waits to run alone goes back when it was held for long enough.
func TestWaitForTheLockIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Isolation, b.ConsumerTimeout, b.HandlerTimeout = Strict, time.Minute, 30*time.Second
		b.isolation = newIsolation()
		if !b.isolation.lock.TryAcquire(1) {
			t.Fatal("the lock is not free")
		}
		began := time.Now()
		outcome, err := b.Handle(t.Context(), b.delivery(false), ok)
		if outcome != Requeued || err != nil || time.Since(began) > 31*time.Second {
			t.Errorf("%v, %v after %v; want it requeued after 30s", outcome, err, time.Since(began))
		}
		b.expect(t, "nack requeue=true", "none")
	})
}
