package consumer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestNothingIsSettledWhileTheUserIsTold: the callback Consuming may take long, and the session is given up by then.
func TestNothingIsSettledWhileTheUserIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, cancelled := unobserved(), make(chan string, 1)
		c := Consumer{Concurrency: 1, Prefetch: 1, Handler: func(_ context.Context, d amqp.Delivery) error {
			if d.MessageId == "m2" {
				t.Error("an attempt began after the broker's cancel")
			}
			time.Sleep(time.Second)
			return nil
		}, Consuming: func(yes bool) {
			if !yes {
				time.Sleep(5 * time.Second)
			}
		}}
		time.AfterFunc(500*time.Millisecond, func() { cancelled <- "tag" })
		err := b.session(c).serve(t.Context(), &link{channel: closingWire{quietWire{new([]string)}, b.acks},
			deliveries: b.queued("m1", "m2"), cancelled: cancelled})
		if got := b.acks.String(); !errors.Is(err, errCancelled) || got != "" {
			t.Errorf("settled %q, the session ended with %v", got, err)
		}
	})
}

// slowWire takes a second to close.
type slowWire struct{ quietWire }

func (slowWire) Close() error { time.Sleep(time.Second); return nil }

// TestAStopOfALostSessionIsUnclean: the session is lost, and the stop comes before it has ended.
func TestAStopOfALostSessionIsUnclean(t *testing.T) {
	for name, unclean := range map[string]bool{"a stop while it ends": true, "no stop": false} {
		synctest.Test(t, func(t *testing.T) {
			b, lost := unobserved(), make(chan *amqp.Error, 1)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			lost <- amqp.ErrClosed
			if unclean {
				time.AfterFunc(500*time.Millisecond, stop)
			}
			err := b.session(Consumer{Handler: ok}).serve(ctx, &link{channel: slowWire{quietWire{new([]string)}}, closed: lost})
			if errors.Is(err, ErrUncleanStop) != unclean || !errors.Is(err, errLost) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestAStopAfterAnUndecodableMessagePassed is clean: the session ended to prefetch again, and was not lost.
func TestAStopAfterAnUndecodableMessagePassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, deliveries := unobserved(), make(chan amqp.Delivery)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s := b.session(Consumer{Prefetch: 20, Handler: ok, Consuming: func(yes bool) {
			if !yes {
				stop()
			}
		}})
		s.beCareful()
		go func() {
			for _, id := range []string{"m1", "m2"} {
				time.Sleep(12 * time.Second)
				d := b.delivery(false)
				d.MessageId = id
				deliveries <- d
			}
		}()
		err := s.serve(ctx, &link{channel: quietWire{new([]string)}, deliveries: deliveries})
		if !errors.Is(err, errPassed) || errors.Is(err, ErrUncleanStop) {
			t.Errorf("got %v, want %v alone", err, errPassed)
		}
	})
}

// lostWire is a channel that is lost just before it is closed: amqp091-go closes it without an error then.
type lostWire struct {
	quietWire
	lost chan *amqp.Error
}

func (w lostWire) Close() error { w.lost <- amqp.ErrClosed; return nil }

// TestAStopThatLosesItsChannelIsUnclean: the last acks may not have arrived.
func TestAStopThatLosesItsChannelIsUnclean(t *testing.T) {
	for name, unsent := range map[string]error{"before the ack": amqp.ErrClosed, "after the ack": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := unobserved()
				ctx, stop := context.WithCancel(t.Context())
				lost := make(chan *amqp.Error, 1)
				c := Consumer{Queue: "orders", Handler: func(context.Context, amqp.Delivery) error {
					stop()
					synctest.Wait()
					b.acks.fail = unsent
					return nil
				}}
				wire := lostWire{quietWire{new([]string)}, lost}
				if err := b.session(c).serve(ctx, &link{channel: wire, deliveries: b.queued("m1"), closed: lost}); !errors.Is(err,
					ErrUncleanStop) {
					t.Errorf("the session ended with %v", err)
				}
			})
		})
	}
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
