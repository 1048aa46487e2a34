package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

func TestHandlerSteers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		handler Handler
		outcome Outcome
		waited  time.Duration
		reason  string
	}{
		{"reject", func(context.Context, amqp.Delivery) error { return Reject(errBoom) }, OutcomeDeadLetter, 0, "boom"},
		{"reject, wrapped", func(context.Context, amqp.Delivery) error {
			return fmt.Errorf("parsing: %w", Reject(errBoom))
		}, OutcomeDeadLetter, 0, "parsing: boom"},
		{"retry after", func(context.Context, amqp.Delivery) error {
			return RetryAfter(errBoom, 7*time.Second)
		}, OutcomeRequeue, 7 * time.Second, "boom"},
		{"retry after a negative time", func(context.Context, amqp.Delivery) error {
			return RetryAfter(errBoom, -1)
		}, OutcomeRequeue, 0, "boom"},
		{"panic", func(context.Context, amqp.Delivery) error { panic("ouch") }, OutcomeRequeue, time.Second, "panic: ouch"},
		{"panic with an error", func(context.Context, amqp.Delivery) error {
			panic(errBoom)
		}, OutcomeRequeue, time.Second, "panic: boom"},
		{"panic with an error of RetryAfter", func(context.Context, amqp.Delivery) error {
			panic(RetryAfter(errBoom, 9*time.Second))
		}, OutcomeRequeue, time.Second, "panic: boom"},
		{"its goroutine's end", func(context.Context, amqp.Delivery) error {
			exitGoroutine()
			return nil
		}, OutcomeRequeue, time.Second, errGoexit.Error()},
		{"reject nothing", func(context.Context, amqp.Delivery) error { return Reject(nil) }, OutcomeAck, 0, ""},
		{"retry nothing", func(context.Context, amqp.Delivery) error {
			return RetryAfter(nil, time.Hour)
		}, OutcomeAck, 0, ""},
		{"obeys its deadline", func(ctx context.Context, _ amqp.Delivery) error {
			<-ctx.Done()
			return ctx.Err()
		}, OutcomeRequeue, 5*time.Minute + time.Second, context.DeadlineExceeded.Error()},
		{"done in spite of its deadline", func(ctx context.Context, _ amqp.Delivery) error {
			<-ctx.Done()
			return nil
		}, OutcomeAck, 5 * time.Minute, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				began := time.Now()
				outcome, err := b.Handle(t.Context(), b.delivery(false), tc.handler)
				if outcome != tc.outcome || err != nil || time.Since(began) != tc.waited {
					t.Errorf("%v, %v after %v; want %v after %v", outcome, err, time.Since(began), tc.outcome, tc.waited)
				}
				records, _ := b.store.Get(t.Context(), "/", "orders", "m1")
				if tc.reason == "" {
					if len(records) != 0 {
						t.Errorf("counted: %+v", records)
					}
					return
				}
				first, _, _ := strings.Cut(records[0].Reason, "\n")
				if first != tc.reason {
					t.Errorf("reason %q, want %q", first, tc.reason)
				}
			})
		})
	}
}

func exitGoroutine() {
	var t testing.T
	t.SkipNow() // ends the goroutine, as FailNow does in a handler under test
}

func TestPanicKeepsWhereItCameFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		need(t, errOf(b.Handle(t.Context(), b.delivery(false), explode)))
		records, _ := b.store.Get(t.Context(), "/", "orders", "m1")
		lines := strings.Split(records[0].Reason, "\n")
		if len(lines) < 2 || !strings.Contains(lines[1], "consumer.explode") {
			t.Errorf("reason does not begin with the frame that panicked:\n%s", records[0].Reason)
		}
	})
}

func explode(context.Context, amqp.Delivery) error { panic("ouch") }

type touchyError struct{ text string }

func (e *touchyError) Error() string { return e.text }

// TestHandlerAndKeyCannotSettle: a delivery that one of them settles would be settled twice.
func TestHandlerAndKeyCannotSettle(t *testing.T) {
	b := newBench()
	settles := func(in string, d amqp.Delivery) {
		for _, err := range []error{d.Ack(false), d.Nack(false, true), d.Reject(true)} {
			if !errors.Is(err, ErrSettled) {
				t.Errorf("settling in a %s: %v", in, err)
			}
		}
	}
	b.Key = func(d amqp.Delivery) string { settles("Key", d); return d.MessageId }
	_, err := b.Handle(t.Context(), b.delivery(false), func(_ context.Context, d amqp.Delivery) error {
		settles("Handler", d)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	b.expect(t, "ack multiple=false", "none")
}

func TestSettlementThatCannotBeSent(t *testing.T) {
	b := newBench()
	b.acks.fail = amqp.ErrClosed
	outcome, err := b.Handle(t.Context(), b.delivery(false), ok)
	if outcome != OutcomeLeave || !errors.Is(err, ErrSettlement) || !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("%v, %v", outcome, err)
	}
}

// TestExhaustedText: numbers agree with their nouns.
func TestExhaustedText(t *testing.T) {
	for want, r := range map[string]counter.Reply{
		"1 failure and 0 crashes reached the limit of 1 attempt; the last: boom": {Failures: 1, Limit: 1},
		"2 failures and 1 crash reached the limit of 3 attempts; the last: boom": {Failures: 2, Crashes: 1, Limit: 3},
		"dead-lettered after 1 failure and 0 crashes, before the limit of 2 attempts (too-old); the last: boom": {Failures: 1,
			Limit: 2, Cause: counter.CauseTooOld},
		"an operator skipped it after 1 failure and 0 crashes: boom": {Failures: 1, Limit: 2, Cause: counter.CauseSkipped},
	} {
		if r.Reason = "boom"; errExhausted(r).Error() != want {
			t.Errorf("got %q, want %q", errExhausted(r), want)
		}
	}
}

// chained are several errors, as hashicorp/go-multierror unwraps to them: As alone shows the first of them.
type chained []error

func (c chained) Error() string      { return c[0].Error() }
func (c chained) As(target any) bool { return errors.As(c[0], target) }
func (c chained) Unwrap() (err error) {
	if len(c) > 1 {
		err = c[1:]
	}
	return err
}

// TestSteersBehindAs: an error steers wherever errors.As finds it.
func TestSteersBehindAs(t *testing.T) {
	for _, want := range []steering{{rejected: true}, {uncounted: true}, {crashed: true}, {waits: true, wait: 7},
		{limited: true, retries: 1}} {
		for _, err := range []error{chained{errBoom, steer(errBoom, want)}, chained{steer(errBoom, want), errBoom},
			chained{errBoom, fmt.Errorf("wrapped: %w", steer(errBoom, want)), errBoom}} {
			if got := inspect(err).steering; got != want {
				t.Errorf("%+v steers as %+v", want, got)
			}
		}
	}
	several := chained{errors.Join(RetryAfter(errBoom, 7), Reject(errBoom)), RetryAfter(errBoom, 8)}
	if got := inspect(several).steering; got != (steering{rejected: true, waits: true, wait: 7}) {
		t.Errorf("several: %+v", got)
	}
}
