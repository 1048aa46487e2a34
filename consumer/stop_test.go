package consumer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestStopCountsNothing(t *testing.T) {
	for _, redelivered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			ctx, stop := context.WithCancel(t.Context())
			outcome, err := b.Handle(ctx, b.delivery(redelivered), func(ctx context.Context, _ amqp.Delivery) error {
				stop()
				<-ctx.Done()
				return ctx.Err()
			})
			if outcome != OutcomeLeave || err != nil {
				t.Errorf("%v, %v", outcome, err)
			}
			want := "none"
			if redelivered {
				want = `"" 0+0 marked false`
			}
			b.expect(t, "", want)
		})
	}
}

func TestStopInTheBackoffLeavesTheWaitToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Backoff = func(int) time.Duration { return time.Minute }
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Second, stop)
		if outcome, err := b.Handle(ctx, b.delivery(false), boom); outcome != OutcomeLeave || err != nil {
			t.Fatalf("%v, %v", outcome, err)
		}
		began := time.Now()
		if outcome, err := b.Handle(t.Context(), b.delivery(true), ok); outcome != OutcomeAck || err != nil {
			t.Fatalf("%v, %v", outcome, err)
		}
		if waited := time.Since(began); waited != 40*time.Second {
			t.Errorf("the next consumer waited %v, want the 40 s that were left", waited)
		}
	})
}

func TestLongWaitIsHandedOnBeforeTheConsumerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		later := func(context.Context, amqp.Delivery) error { return RetryAfter(errBoom, 40*time.Minute) }
		began := time.Now()
		for i, h := range []Handler{later, ok, ok} {
			want := OutcomeRequeue
			if i == 2 {
				want = OutcomeAck
			}
			if outcome, err := b.Handle(t.Context(), b.delivery(i > 0), h); outcome != want || err != nil {
				t.Fatalf("consumer %d: %v, %v", i+1, outcome, err)
			}
			if i < 2 && time.Since(began) != time.Duration(i+1)*15*time.Minute {
				t.Errorf("consumer %d let go after %v", i+1, time.Since(began))
			}
		}
		if waited := time.Since(began); waited != 40*time.Minute {
			t.Errorf("waited %v in all, want 40 m", waited)
		}
	})
}

func TestDeliveryThatWaitedTooLongIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, Consumer{Handler: func(_ context.Context, d amqp.Delivery) error {
			if d.MessageId != "slow" {
				t.Errorf("%s was handled", d.MessageId)
			}
			time.Sleep(16 * time.Minute)
			return nil
		}}, func(c *Consumer) { c.HandlerTimeout = -1 })
		g.deliver("slow", false)
		g.deliver("m1", false)
		time.Sleep(17 * time.Minute)
		g.expect(t, "ack multiple=false, nack requeue=true", "none")
	})
}
