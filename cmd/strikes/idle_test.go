package main

import (
	"context"
	"strings"
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
		then func(i *idle, filled *atomic.Bool) // the event a second after the start
		want time.Duration                      // when it is idle
	}{
		{"nothing", func(*idle, *atomic.Bool) {}, 5 * time.Second},
		{"a delivery that is held", func(i *idle, _ *atomic.Bool) {
			i.receive(amqp.Delivery{})
			time.Sleep(20 * time.Second) // the store is slow, a lane is busy, the handler runs, or a retry waits
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeAck})
		}, 26 * time.Second},
		{"decisions before the last one of a delivery", func(i *idle, _ *atomic.Bool) {
			i.receive(amqp.Delivery{})
			for _, o := range []consumer.Outcome{consumer.OutcomeIsolate, consumer.OutcomeRetry, consumer.OutcomeHold,
				consumer.OutcomeNotCounted, consumer.OutcomeCrash} {
				i.Observe(context.Background(), consumer.Event{Outcome: o, Wait: time.Second})
			}
			time.Sleep(20 * time.Second)
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeDeadLetter})
		}, 26 * time.Second},
		{"one of two deliveries is settled", func(i *idle, _ *atomic.Bool) {
			i.receive(amqp.Delivery{})
			i.receive(amqp.Delivery{})
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeMove})
			time.Sleep(20 * time.Second)
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeLeave})
		}, 26 * time.Second},
		{"a message that cannot be decoded", func(i *idle, _ *atomic.Bool) {
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeUndecodable})
		}, 6 * time.Second},
		{"a session that begins late", func(i *idle, _ *atomic.Bool) {
			time.Sleep(3 * time.Second)
			i.consuming()
		}, 9 * time.Second},
		{"messages that no consumer gets", func(_ *idle, filled *atomic.Bool) {
			filled.Store(true)
			time.Sleep(13 * time.Second)
			filled.Store(false)
		}, 15 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i, began := newIdle(5*time.Second, nil), time.Now()
				var filled atomic.Bool
				go func() {
					time.Sleep(time.Second)
					tt.then(i, &filled)
				}()
				if !i.wait(t.Context(), func(context.Context) bool { return !filled.Load() }) {
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

// TestIdleSaysWhatItWaitsFor: one line, once nothing has happened for the patience.
func TestIdleSaysWhatItWaitsFor(t *testing.T) {
	waits := func(failed bool) string {
		var said strings.Builder
		synctest.Test(t, func(t *testing.T) {
			i := newIdle(5*time.Second, &said)
			i.receive(amqp.Delivery{})
			i.receive(amqp.Delivery{})
			if failed {
				i.Observe(t.Context(), consumer.Event{Outcome: consumer.OutcomeRetry, Wait: time.Hour})
				i.Observe(t.Context(), consumer.Event{Outcome: consumer.OutcomeNotCounted, Wait: time.Second})
			}
			go func() {
				time.Sleep(4 * time.Second)
				i.Observe(t.Context(), consumer.Event{Outcome: consumer.OutcomeHold})
				time.Sleep(4 * time.Second)
				i.mu.Lock() // under which it is said
				if said.Len() > 0 {
					t.Errorf("said too soon: %q", said.String())
				}
				i.mu.Unlock()
				time.Sleep(time.Hour)
				i.Observe(t.Context(), consumer.Event{Outcome: consumer.OutcomeAck})
				i.Observe(t.Context(), consumer.Event{Outcome: consumer.OutcomeAck})
			}()
			i.wait(t.Context(), func(context.Context) bool { return true })
		})
		return said.String()
	}
	if got := waits(false); got != "strikes: waiting for 2 unacked messages\n" {
		t.Errorf("%q", got)
	}
	const next = ", the latest next attempt at 2000-01-01T01:00:00Z\n" // a test's clock begins with 2000
	if got := waits(true); got != "strikes: waiting for 2 unacked messages"+next {
		t.Errorf("%q", got)
	}
}

func TestIdleStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if newIdle(time.Hour, nil).wait(ctx, func(context.Context) bool { return true }) {
		t.Error("idle, though it was stopped")
	}
}

// TestOwnConsumerIsCounted has a broker answer that a queue has no message: that is believed once it counts a consumer.
func TestOwnConsumerIsCounted(t *testing.T) {
	b, err := connect.NewBroker(brokerURL(t), "test", "--amqp-url")
	need(t, err)
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
		if w.empty(t.Context()) {
			t.Error("empty, by an answer that counts no consumer")
		}
		if _, err := ch.Consume(q.Name, "", true, true, false, false, nil); err != nil {
			return err
		}
		if !w.empty(t.Context()) {
			t.Error("not empty, though nothing is there")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
