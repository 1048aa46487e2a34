package consumer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// spans is a Tracer that notes its calls.
type spans struct {
	mu  sync.Mutex
	got []string
}

type spanKey struct{}

func (s *spans) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, text)
}

func (s *spans) AttemptStart(ctx context.Context, d amqp.Delivery) context.Context {
	a, _ := AttemptFrom(ctx)
	s.note(fmt.Sprintf("start %s %d", d.MessageId, a.Number))
	return context.WithValue(ctx, spanKey{}, a.Number)
}

func (s *spans) AttemptEnd(ctx context.Context, e Event) {
	s.note(fmt.Sprintf("end %v %s", ctx.Value(spanKey{}), e.Cause))
}

// TestTracerFollowsEachAttempt: however the handler ends, the trace ends once, in the context of its start.
func TestTracerFollowsEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, seen := newBench(), &spans{}
		b.Retry, b.Tracer, b.MaxRetries = RetryInPlace, seen, 9
		release := make(chan struct{})
		outcome, err := b.Handle(t.Context(), b.delivery(false), func(ctx context.Context, _ amqp.Delivery) error {
			a, ok := AttemptFrom(ctx)
			if !ok || ctx.Value(spanKey{}) != a.Number {
				t.Errorf("attempt %+v has the span %v", a, ctx.Value(spanKey{}))
			}
			switch a.Number {
			case 1:
				return errBoom
			case 2:
				panic("ouch")
			case 3:
				exitGoroutine()
			case 4:
				<-release
			}
			return nil
		})
		if outcome != OutcomeAck || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		want := "start m1 1, end 1 failed, start m1 2, end 2 panicked, start m1 3, end 3 failed, start m1 4, end 4 " +
			"timed-out, start m1 5, end 5 "
		if got := strings.Join(seen.got, ", "); got != want {
			t.Errorf("traced %s\nwant %s", got, want)
		}
		close(release)
	})
}

// TestConsumingTellsAProbe: a session consumes until it takes no more messages.
func TestConsumingTellsAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		ctx, stop := context.WithCancel(t.Context())
		var calls []bool
		c := Consumer{Handler: ok, Consuming: func(yes bool) { calls = append(calls, yes) }}
		time.AfterFunc(time.Second, func() {
			if fmt.Sprint(calls) != "[true]" {
				t.Errorf("while it consumes: %v", calls)
			}
			stop()
		})
		if _, err := served(ctx, b, c, 1); err != nil {
			t.Error(err)
		}
		if fmt.Sprint(calls) != "[true false]" {
			t.Errorf("calls: %v", calls)
		}
	})
}
