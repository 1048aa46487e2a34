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
