package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
)

// sink is the broker's side of a delivery.
type sink struct{}

func (sink) Ack(uint64, bool) error        { return nil }
func (sink) Nack(uint64, bool, bool) error { return nil }
func (sink) Reject(uint64, bool) error     { return nil }

func TestMetrics(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry())
	busy := func(context.Context, amqp.Delivery) error { return errors.New("the bank is busy") }
	c := &consumer.Consumer{
		Queue: "orders", Handler: busy, Counter: counter.NewMemory(nil), MaxRetries: 2, Retry: consumer.RetryInPlace,
		Backoff: func(int) time.Duration { return 0 }, Observer: m,
	}
	d := amqp.Delivery{Acknowledger: sink{}, MessageId: "order 17"}
	if _, err := c.Handle(t.Context(), "/", d); err != nil {
		t.Fatal(err)
	}
	for outcome, want := range map[consumer.Outcome]float64{consumer.OutcomeRetry: 2, consumer.OutcomeDeadLetter: 1} {
		if got := testutil.ToFloat64(m.outcomes.WithLabelValues("orders", string(outcome), "failed")); got != want {
			t.Errorf("%s: %v, want %v", outcome, got, want)
		}
	}
}
