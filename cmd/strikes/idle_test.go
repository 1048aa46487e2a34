package main

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/consumer"
)

func TestIdle(t *testing.T) {
	tests := []struct {
		name string
		then func(i *idle, filled *atomic.Bool) // what happens, a second after the start
		want time.Duration                      // when it is idle
	}{
		{"nothing", func(*idle, *atomic.Bool) {}, 5 * time.Second},
		{"a decision", func(i *idle, _ *atomic.Bool) { i.Observe(context.Background(), consumer.Event{}) }, 6 * time.Second},
		{"a wait", func(i *idle, _ *atomic.Bool) {
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeRetry, Wait: 30 * time.Second})
		}, 36 * time.Second},
		{"a message that is moved", func(i *idle, _ *atomic.Bool) {
			for token, wait := range map[string]time.Duration{"a": time.Hour, "b": 30 * time.Second} {
				i.begin(token)
				i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeRetry, Token: token, Wait: wait})
			}
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeMove, Token: "a"})
		}, 36 * time.Second},
		{"a long run", func(i *idle, _ *atomic.Bool) {
			i.begin("a")
			time.Sleep(20 * time.Second)
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeAck, Token: "a"})
		}, 26 * time.Second},
		{"a dead letter that is held", func(i *idle, _ *atomic.Bool) {
			i.begin("a")
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeHold, Token: "a"})
			time.Sleep(20 * time.Second)
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeDeadLetter, Token: "a"})
		}, 26 * time.Second},
		{"messages that no consumer gets", func(_ *idle, filled *atomic.Bool) {
			filled.Store(true)
			time.Sleep(13 * time.Second)
			filled.Store(false)
		}, 15 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i, began := newIdle(5*time.Second), time.Now()
				var filled atomic.Bool
				go func() {
					time.Sleep(time.Second)
					tt.then(i, &filled)
				}()
				if !i.wait(t.Context(), func() bool { return !filled.Load() }) {
					t.Fatal("never idle")
				}
				synctest.Wait()
				if got := time.Since(began); got < tt.want || got > tt.want+5*time.Second {
					t.Errorf("idle after %v, want %v and at most the patience more", got, tt.want)
				}
			})
		})
	}
}

func TestIdleStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if newIdle(time.Hour).wait(ctx, func() bool { return true }) {
		t.Error("idle, though it was stopped")
	}
}

// TestOwnConsumerIsCounted has a broker answer that a queue has no message: that is believed once it counts a consumer.
func TestOwnConsumerIsCounted(t *testing.T) {
	b, err := connect.NewBroker(brokerURL(t), "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.With(t.Context(), func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		q, err := ch.QueueDeclare("", false, true, true, false, nil)
		if err != nil {
			return err
		}
		w := &worker{consumer: consumer.Consumer{Queue: q.Name}}
		w.conn.Store(conn)
		if w.empty() {
			t.Error("empty, by an answer that counts no consumer")
		}
		if _, err := ch.Consume(q.Name, "", true, true, false, false, nil); err != nil {
			return err
		}
		if !w.empty() {
			t.Error("not empty, though nothing is there")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
