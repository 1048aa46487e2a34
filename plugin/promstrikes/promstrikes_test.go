package promstrikes

import (
	"context"
	"errors"
	"strings"
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

// observed handles one message whose handler always fails, with two retries.
func observed(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	metrics, err := New(registry)
	if err != nil {
		t.Fatal(err)
	}
	busy := func(context.Context, amqp.Delivery) error { return errors.New("the bank is busy") }
	c := &consumer.Consumer{
		Queue: "orders", Handler: busy, Counter: counter.NewMemory(nil), MaxRetries: 2, Retry: consumer.RetryInPlace,
		Backoff: func(int) time.Duration { return 0 }, Observer: metrics,
	}
	if _, err := c.Handle(t.Context(), "/", amqp.Delivery{Acknowledger: sink{}, MessageId: "order 17"}); err != nil {
		t.Fatal(err)
	}
	return registry
}

func TestObserver(t *testing.T) {
	registry := observed(t)
	const want = `
# HELP strikes_outcomes_total What became of deliveries, and why.
# TYPE strikes_outcomes_total counter
strikes_outcomes_total{cause="failed",outcome="dead-letter",queue="orders",vhost="/"} 1
strikes_outcomes_total{cause="failed",outcome="retry",queue="orders",vhost="/"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "strikes_outcomes_total"); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]int{"strikes_attempt_duration_seconds": 2, "strikes_delivery_duration_seconds": 1} {
		if got, err := testutil.GatherAndCount(registry, name); got != want || err != nil {
			t.Errorf("%s: %d series, %v, want %d", name, got, err, want)
		}
	}
}

// TestSettled: a delivery is measured whichever way it is settled, also if its message waits in a delay queue then.
func TestSettled(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	metrics, err := New(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []consumer.Outcome{consumer.OutcomeAck, consumer.OutcomeRequeue, consumer.OutcomeDeadLetter,
		consumer.OutcomeMove, consumer.OutcomeSuperseded, consumer.OutcomeLeave} {
		metrics.Observe(t.Context(), consumer.Event{Queue: "orders", Outcome: o, Elapsed: time.Second})
	}
	const name, want = "strikes_delivery_duration_seconds", 5 // one that is left was not settled
	if got, err := testutil.GatherAndCount(registry, name); got != want || err != nil {
		t.Errorf("%s: %d series, %v, want %d", name, got, err, want)
	}
}

// TestNames: the linter of Prometheus finds no fault with the names and help texts.
func TestNames(t *testing.T) {
	problems, err := testutil.GatherAndLint(observed(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestLabels: no label has a value for each message.
func TestLabels(t *testing.T) {
	families, err := observed(t).Gather()
	if err != nil || len(families) != 3 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !strings.Contains(" vhost queue outcome cause ", " "+l.GetName()+" ") {
					t.Errorf("%s has the label %s", f.GetName(), l.GetName())
				}
			}
		}
	}
}

// TestTwice: a registry takes one Observer.
func TestTwice(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := New(registry); err != nil {
		t.Fatal(err)
	}
	if _, err := New(registry); !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		t.Errorf("got %v", err)
	}
}
