package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// attemptsUntilDead calls a handler in place until its message is dead-lettered, and returns how often it ran.
func attemptsUntilDead(t *testing.T, b bench, fails func(number int) error) int {
	t.Helper()
	b.Retry = RetryInPlace
	ran := 0
	outcome, err := b.Handle(t.Context(), b.delivery(false), func(ctx context.Context, _ amqp.Delivery) error {
		ran++
		a, _ := AttemptFrom(ctx)
		return fails(a.Number)
	})
	if outcome != OutcomeDeadLetter || err != nil {
		t.Errorf("%v, %v after %d attempts", outcome, err, ran)
	}
	return ran
}

func TestRetryAtMost(t *testing.T) {
	for name, tc := range map[string]struct {
		fails func(number int) error
		ran   int
	}{
		"no retry":                {func(int) error { return RetryAtMost(errBoom, 0) }, 1},
		"a negative number":       {func(int) error { return RetryAtMost(errBoom, -7) }, 1},
		"one retry":               {func(int) error { return RetryAtMost(errBoom, 1) }, 2},
		"more than the limit":     {func(int) error { return RetryAtMost(errBoom, 99) }, 4},
		"the largest number":      {func(int) error { return RetryAtMost(errBoom, int(^uint(0)>>1)) }, 4},
		"wrapped":                 {func(int) error { return fmt.Errorf("order: %w", RetryAtMost(errBoom, 1)) }, 2},
		"with another wait":       {func(int) error { return RetryAfter(RetryAtMost(errBoom, 1), time.Hour/8) }, 2},
		"around another wait":     {func(int) error { return RetryAtMost(RetryAfter(errBoom, time.Hour/8), 1) }, 2},
		"the smaller one inside":  {func(int) error { return RetryAtMost(RetryAtMost(errBoom, 0), 2) }, 1},
		"the smaller one outside": {func(int) error { return RetryAtMost(RetryAtMost(errBoom, 2), 0) }, 1},
		"the smallest of those joined": {func(int) error {
			return errors.Join(errBoom, RetryAtMost(errBoom, 2), fmt.Errorf("%w", RetryAtMost(errBoom, 1)))
		}, 2},
		"rejected":                      {func(int) error { return Reject(RetryAtMost(errBoom, 2)) }, 1},
		"others were counted before":    {lastly(2, RetryAtMost(errBoom, 1)), 2},
		"others were counted, too many": {lastly(3, RetryAtMost(errBoom, 1)), 3},
		"only the first is limited":     {firstly(RetryAtMost(errBoom, 1)), 4},
		"an attempt is not counted":     {sometimesUncounted(), 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if ran := attemptsUntilDead(t, newBench(), tc.fails); ran != tc.ran {
					t.Errorf("the handler ran %d times, want %d", ran, tc.ran)
				}
			})
		})
	}
	if err := RetryAtMost(nil, 0); err != nil {
		t.Error(err)
	}
	if err := RetryAtMost(errBoom, 0); !errors.Is(err, errBoom) || err.Error() != "boom" {
		t.Error(err)
	}
}

// lastly fails with err from the attempt with this number on.
func lastly(number int, err error) func(int) error {
	return func(n int) error {
		if n >= number {
			return err
		}
		return errBoom
	}
}

func firstly(err error) func(int) error {
	return func(n int) error {
		if n == 1 {
			return err
		}
		return errBoom
	}
}

// sometimesUncounted does not count its first two calls, whatever they allow.
func sometimesUncounted() func(int) error {
	calls := 0
	return func(int) error {
		if calls++; calls < 3 {
			return NotCounted(RetryAtMost(errBoom, 0))
		}
		return RetryAtMost(errBoom, 1)
	}
}

func TestMaxAge(t *testing.T) {
	const retries = 9
	for name, tc := range map[string]struct {
		maxAge time.Duration
		ran    int
		cause  counter.Cause
	}{ // Attempts begin 1, 3, 6, 10, 15 s after the first.
		"none":                 {0, retries + 1, counter.CauseFailed},
		"between two attempts": {5 * time.Second, 4, counter.CauseTooOld},
		"at an attempt":        {6 * time.Second, 5, counter.CauseTooOld},
		"before the first":     {time.Nanosecond, 2, counter.CauseTooOld},
		"longer than all":      {time.Hour, retries + 1, counter.CauseFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				b.MaxAge, b.MaxRetries = tc.maxAge, retries
				var last Event
				b.Observer = observe(func(e Event) { last = e })
				ran := attemptsUntilDead(t, b, func(int) error { return errBoom })
				if ran != tc.ran || last.Outcome != OutcomeDeadLetter || last.Cause != tc.cause || last.Err == nil ||
					last.Err.Error() != "boom" {
					t.Errorf("the handler ran %d times, want %d; the last event: %v %v, %v", ran, tc.ran, last.Outcome, last.Cause,
						last.Err)
				}
			})
		})
	}
}

// TestMaxAgeAtARedelivery: the consumer that counted the last failure allowed more.
func TestMaxAgeAtARedelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		for range 2 {
			if _, err := b.Handle(t.Context(), b.delivery(false), func(context.Context, amqp.Delivery) error {
				return errBoom
			}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		b.MaxAge = 10 * time.Second
		var last Event
		b.Observer = observe(func(e Event) { last = e })
		outcome, err := b.Handle(t.Context(), b.delivery(true), func(context.Context, amqp.Delivery) error {
			t.Error("the handler ran")
			return nil
		})
		want := "dead-lettered after 2 failures and 0 crashes, before the limit of 4 attempts (too-old); the last: boom"
		if outcome != OutcomeDeadLetter || err != nil || last.Cause != counter.CauseTooOld || last.Err.Error() != want {
			t.Errorf("%v, %v: %v %v", outcome, err, last.Cause, last.Err)
		}
	})
}

// TestTwoMessagesOfOneIDAtOnce: a message that arrived before the tombstone of its id was written meets the tombstone.
// So it is not taken for a later use of the id, which would get all attempts.
func TestTwoMessagesOfOneIDAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		var calls atomic.Int64
		fails := func(context.Context, amqp.Delivery) error {
			n := calls.Add(1)
			time.Sleep(time.Duration(n) * time.Second)
			if n == 1 {
				return Reject(errBoom)
			}
			return errBoom
		}
		s := b.session(Consumer{Handler: fails, Concurrency: 2, Prefetch: 2})
		s.prepare(t.Context(), t.Context())
		for from := range 2 {
			d := b.delivery(false)
			d.DeliveryTag = uint64(from + 1)
			s.take(t.Context(), d)
		}
		s.tasks.Wait()
		b.expect(t, "nack requeue=false, nack requeue=false", `"exhausted" 1+0 marked false`)
	})
}
