package consumer

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestAttemptNamesTheMessage: ID and Generation stay the same in retries and redeliveries, and a replay changes the
// Generation, whichever way it was made.
func TestAttemptNamesTheMessage(t *testing.T) {
	moved := amqp.Table{"x-death": []any{death("orders", "rejected", int64(1), time.Unix(1_700_000_000, 0))}}
	replay := written(amqp.Table{GenerationHeader: "a text of the publisher"}, "order 17")
	for _, tc := range []struct {
		name    string
		headers amqp.Table
		key     func(amqp.Delivery) string
		want    [2]string // ID and Generation
	}{
		{"a new message", nil, nil, [2]string{"order 17", "0"}},
		{"moved back", moved, nil, [2]string{"order 17", "eb42c34917a86858"}},
		{"replayed", replay, nil, [2]string{"order 17", "203feaf4a08406ec"}},
		{"a Key", nil, func(d amqp.Delivery) string { return "key of " + d.MessageId }, [2]string{"key of order 17", "0"}},
		{"a Key that panics", nil, func(amqp.Delivery) string { panic("no key") }, [2]string{"", "0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench()
			b.Key, b.Retry, b.MaxRetries = tc.key, RetryInPlace, 2
			b.Backoff = func(int) time.Duration { return 0 }
			var seen [][2]string
			d := b.delivery(false)
			d.MessageId, d.Headers = "order 17", tc.headers
			_, err := b.Handle(t.Context(), d, func(ctx context.Context, _ amqp.Delivery) error {
				a, _ := AttemptFrom(ctx)
				seen = append(seen, [2]string{a.ID, a.Generation})
				return errBoom
			})
			if err != nil || len(seen) == 0 {
				t.Fatalf("%d attempts, %v", len(seen), err)
			}
			for _, got := range seen {
				if got != tc.want {
					t.Errorf("ID and Generation %q, want %q", got, tc.want)
				}
			}
		})
	}
	if _, ok := AttemptFrom(t.Context()); ok {
		t.Error("a context that is not a Handler's has an attempt")
	}
}

// TestHandlersMayChangeHeaders: a handler replaces the headers of strikes to pass its message on. The consumer and the
// next attempt still have them.
func TestHandlersMayChangeHeaders(t *testing.T) {
	for _, headers := range []amqp.Table{nil, written(amqp.Table{GenerationHeader: "g", "mine": "kept"}, "order 17")} {
		b := newBench()
		b.Retry, b.MaxRetries, b.Backoff = RetryInPlace, 2, func(int) time.Duration { return 0 }
		d := b.delivery(false)
		d.MessageId, d.Headers = "order 17", headers
		calls, has := 0, len(headers)
		_, err := b.Handle(t.Context(), d, func(ctx context.Context, d amqp.Delivery) error {
			calls++
			if a, _ := AttemptFrom(ctx); len(d.Headers) != has || a.Number != calls {
				t.Errorf("call %d: attempt %d, headers %v", calls, a.Number, d.Headers)
			}
			clear(d.Headers)
			d.Headers["traceparent"] = "of the next message"
			return errBoom
		})
		if err != nil || calls != 3 {
			t.Errorf("%d attempts, %v", calls, err)
		}
	}
}
