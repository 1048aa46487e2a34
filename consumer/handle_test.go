package consumer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

func TestFirstDeliverySuccessSendsNothing(t *testing.T) {
	b := newBench()
	outcome, err := b.Handle(t.Context(), b.delivery(false), ok)
	if outcome != OutcomeAck || err != nil {
		t.Fatalf("%v, %v", outcome, err)
	}
	if n := b.store.steps.Load(); n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
	b.expect(t, "ack multiple=false", "none")
}

func TestRequeueUntilTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		runs, began, fence := 0, time.Now(), int64(-1)
		fail := func(ctx context.Context, _ amqp.Delivery) error {
			runs++
			a, ok := AttemptFrom(ctx)
			if !ok || a.Number != runs || a.Last != 4 || a.Token == "" || a.Fence <= fence || runs == 1 && a.Fence != 0 {
				t.Errorf("run %d: %+v, %v", runs, a, ok)
			}
			fence = a.Fence
			return errBoom
		}
		for i := range 4 {
			want := OutcomeRequeue
			if i == 3 {
				want = OutcomeDeadLetter
			}
			if outcome, err := b.Handle(t.Context(), b.delivery(i > 0), fail); outcome != want || err != nil {
				t.Fatalf("delivery %d: %v, %v", i+1, outcome, err)
			}
		}
		b.expect(t, "nack requeue=true, nack requeue=true, nack requeue=true, nack requeue=false",
			`"exhausted" 4+0 marked false`)
		if waited := time.Since(began); runs != 4 || waited != 6*time.Second {
			t.Errorf("%d runs in %v; want 4, with backoffs of 1, 2 and 3 s", runs, waited)
		}
		// the last nack was lost: it is repeated without the handler
		if outcome, err := b.Handle(t.Context(), b.delivery(true), fail); outcome != OutcomeDeadLetter || err != nil ||
			runs != 4 {
			t.Errorf("%v, %v, %d runs", outcome, err, runs)
		}
	})
}

func TestInPlaceUntilTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Retry = RetryInPlace
		tokens := map[string]bool{}
		outcome, err := b.Handle(t.Context(), b.delivery(false), func(ctx context.Context, _ amqp.Delivery) error {
			a, _ := AttemptFrom(ctx)
			tokens[a.Token] = true
			if a.Number != len(tokens) {
				t.Errorf("run %d is attempt %d", len(tokens), a.Number)
			}
			return errBoom
		})
		if outcome != OutcomeDeadLetter || err != nil || len(tokens) != 4 {
			t.Fatalf("%v, %v, %d runs", outcome, err, len(tokens))
		}
		b.expect(t, "nack requeue=false", `"exhausted" 4+0 marked false`)
		if got := strings.Join(*b.events, " "); got != "retry retry retry dead-letter" {
			t.Errorf("events: %s", got)
		}
	})
}

func TestSuccessAfterFailures(t *testing.T) {
	for _, mode := range []RetryMode{RetryRequeue, RetryInPlace} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			b.Retry = mode
			runs := 0
			flaky := func(context.Context, amqp.Delivery) error {
				if runs++; runs < 3 {
					return errBoom
				}
				return nil
			}
			for i := 0; runs < 3; i++ {
				need(t, errOf(b.Handle(t.Context(), b.delivery(i > 0), flaky)))
			}
			if last := b.acks.got[len(b.acks.got)-1]; last != "ack multiple=false" {
				t.Errorf("last settlement: %s", last)
			}
			if got := b.store.record(t); got != `"done" 2+0 marked false` {
				t.Errorf("record: %s", got)
			}
		})
	}
}

func TestMessageWithoutID(t *testing.T) {
	for _, tc := range []struct {
		name        string
		redelivered bool
		handler     Handler
		want        Outcome
		ran         bool
	}{
		{"succeeds", false, ok, OutcomeAck, true},
		{"fails", false, boom, OutcomeDeadLetter, true},
		{"comes back", true, ok, OutcomeDeadLetter, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench()
			d := b.delivery(tc.redelivered)
			d.MessageId = ""
			ran := false
			outcome, err := b.Handle(t.Context(), d, func(ctx context.Context, d amqp.Delivery) error {
				ran = true
				return tc.handler(ctx, d)
			})
			if outcome != tc.want || err != nil || ran != tc.ran || b.store.steps.Load() != 0 {
				t.Errorf("%v, %v, ran %v, %d steps", outcome, err, ran, b.store.steps.Load())
			}
		})
	}
}

func TestKeyFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Key = func(d amqp.Delivery) string { return d.CorrelationId }
		d := b.delivery(false)
		d.MessageId, d.CorrelationId = "", "m1"
		if outcome, err := b.Handle(t.Context(), d, boom); outcome != OutcomeRequeue || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		b.expect(t, "nack requeue=true", `"" 1+0 marked false`)
	})
}

func TestSettlementThatCannotBeSent(t *testing.T) {
	b := newBench()
	b.acks.fail = amqp.ErrClosed
	outcome, err := b.Handle(t.Context(), b.delivery(false), ok)
	if outcome != OutcomeLeave || !errors.Is(err, ErrSettlement) || !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("%v, %v", outcome, err)
	}
}

func TestHandleRefusesFields(t *testing.T) {
	var absent *counter.Counter
	for name, change := range map[string]func(*Consumer){
		"Queue":                    func(s *Consumer) { s.Queue = "" },
		"Counter":                  func(s *Consumer) { s.Counter = nil },
		"Counter (nil)":            func(s *Consumer) { s.Counter = absent },
		"MaxRetries":               func(s *Consumer) { s.MaxRetries = 1001 },
		"Retry":                    func(s *Consumer) { s.Retry = 3 },
		"Isolation":                func(s *Consumer) { s.Isolation = -1 },
		"ConsumerTimeout":          func(s *Consumer) { s.ConsumerTimeout = time.Second },
		"HandlerTimeout":           func(s *Consumer) { s.HandlerTimeout = time.Hour },
		"Ordered":                  func(s *Consumer) { s.Ordered = true },
		"HoldLanes":                func(s *Consumer) { s.HoldLanes = true },
		"Lane":                     func(s *Consumer) { s.Lane = func(amqp.Delivery) string { return "" } },
		"HandlerTimeout (default)": func(s *Consumer) { s.ConsumerTimeout = 5 * time.Minute },
	} {
		b := newBench()
		change(b.Consumer)
		field, _, _ := strings.Cut(name, " ")
		var fe *FieldError
		if outcome, err := b.Handle(t.Context(), b.delivery(false), ok); outcome != OutcomeLeave || !errors.As(err, &fe) ||
			fe.Field != field {
			t.Errorf("%s: %v, %v", name, outcome, err)
		}
		b.expect(t, "", "none")
	}
	b := newBench()
	if outcome, err := b.Handle(t.Context(), b.delivery(false), nil); outcome != OutcomeLeave || err == nil {
		t.Errorf("nil handler: %v, %v", outcome, err)
	}
}

// TestHandleNeedsAnAcknowledger: a delivery that cannot be settled is refused before the handler runs.
func TestHandleNeedsAnAcknowledger(t *testing.T) {
	b := newBench()
	d := b.delivery(false)
	d.Acknowledger = nil
	if outcome, err := b.Handle(t.Context(), d, ok); outcome != OutcomeLeave || err == nil ||
		!strings.Contains(err.Error(), "no Acknowledger") {
		t.Errorf("%v, %v", outcome, err)
	}
}

func TestNoRetries(t *testing.T) {
	b := newBench()
	b.MaxRetries = -1
	if outcome, err := b.Handle(t.Context(), b.delivery(false), boom); outcome != OutcomeDeadLetter || err != nil {
		t.Errorf("%v, %v", outcome, err)
	}
}
