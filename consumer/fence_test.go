package consumer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// TestFence: each delivery has one fence in all its attempts in place, greater than those of the deliveries before it.
func TestFence(t *testing.T) {
	ahead := time.Now().Add(time.Hour) // on the host of the replay
	replay := written(amqp.Table{FenceHeader: ahead.UnixMicro()}, "m1")
	for _, tc := range []struct {
		name    string
		iso     Isolation
		headers amqp.Table
		first   func(fence int64) bool // of the first delivery
	}{
		{"a new message", IsolationSuspects, nil, func(f int64) bool { return f == 0 }},
		{"a new message, not isolated", IsolationOff, nil, func(f int64) bool { return f == 0 }},
		{"a replay", IsolationSuspects, replay, func(f int64) bool { return f == replay[FenceHeader] }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				b.Isolation, b.Retry, b.MaxRetries = tc.iso, RetryInPlace, 9
				deliver := func(redelivered bool) (fences []int64) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					d := b.delivery(redelivered)
					d.Headers = tc.headers
					_, err := b.Handle(ctx, d, func(ctx context.Context, _ amqp.Delivery) error {
						a, _ := AttemptFrom(ctx)
						if fences = append(fences, a.Fence); len(fences) == 3 {
							cancel() // its session ends
						}
						return errBoom
					})
					if err != nil || len(fences) != 3 {
						t.Fatalf("%d attempts, %v", len(fences), err)
					}
					if fences[1] != fences[0] || fences[2] != fences[0] {
						t.Errorf("the attempts at one delivery have the fences %d", fences)
					}
					return fences
				}
				first, second, third := deliver(false)[0], deliver(true)[0], deliver(true)[0]
				if !tc.first(first) || second <= first || third <= second {
					t.Errorf("three deliveries have the fences %d, %d, %d", first, second, third)
				}
			})
		})
	}
}

// TestShortTTLIsRefused: a record must not expire between START and FAIL.
func TestShortTTLIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name              string
		ttl               time.Duration
		handler, consumer time.Duration
		refused           bool
	}{
		{"the defaults", 0, 0, 0, false},
		{"less than the defaults take", 28 * time.Minute, 0, 0, true},
		{"what the defaults take", 28*time.Minute + 30*time.Second, 0, 0, false},
		{"a minute, and a handler of 61 s", time.Minute, 61 * time.Second, 4 * time.Minute, true},
		{"enough for it", 5*time.Minute + time.Second, 61 * time.Second, 4 * time.Minute, false},
		{"a handler without a bound", 50 * time.Minute, -1, 0, true},
		{"a handler without a bound, until the broker takes it back", 54 * time.Minute, -1, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newBench()
			c.Counter, c.HandlerTimeout, c.ConsumerTimeout = counter.NewMemory(&counter.Options{TTL: tc.ttl}), tc.handler,
				tc.consumer
			outcome, err := c.Handle(t.Context(), c.delivery(false), ok)
			if refused := errors.As(err, new(*FieldError)); refused != tc.refused || refused && outcome != OutcomeLeave {
				t.Errorf("%v, %v", outcome, err)
			}
		})
	}
}
