package consumer

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// TestSettingsAreRefused: settings are judged before there is a Handler, a Counter or a connection.
func TestSettingsAreRefused(t *testing.T) {
	byID := func(d amqp.Delivery) string { return d.MessageId }
	wantValid(t, Consumer{}, Consumer{Ordered: true, HoldLanes: true})
	wantRefused(t, map[string]Consumer{
		"MaxRetries 1001":    {MaxRetries: 1001},
		"Retry 3":            {Retry: 3},
		"Isolation -1":       {Isolation: -1},
		"Concurrency 65536":  {Concurrency: 65536},
		"Prefetch 65536":     {Prefetch: 65536},
		"ConsumerTimeout 1s": {ConsumerTimeout: time.Second},
		"ConsumerTimeout":    {ConsumerTimeout: math.MaxInt64, HandlerTimeout: -1},
		"HandlerTimeout 1h":  {HandlerTimeout: time.Hour},
		"HandlerTimeout 5m":  {ConsumerTimeout: 5 * time.Minute}, // the default is longer than half of it

		"Ordered false":        {Lane: byID},
		`Retry "RetryRequeue"`: {Ordered: true, Lane: byID, Retry: RetryRequeue},
		"Concurrency 2":        {Ordered: true, Concurrency: 2},
		"Prefetch 2":           {Ordered: true, Retry: RetryRequeue, Prefetch: 2},
		"Concurrency 16":       {Ordered: true, Retry: RetryRequeue, Concurrency: 16},
		"HoldLanes true":       {HoldLanes: true},
	})
}

func wantValid(t *testing.T, all ...Consumer) {
	t.Helper()
	for _, c := range all {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// wantRefused wants each consumer refused for the field that it is listed under. A value may follow the field.
func wantRefused(t *testing.T, all map[string]Consumer) {
	t.Helper()
	for setting, c := range all {
		c.Queue = "orders"
		err := c.Validate()
		refused := new(FieldError)
		if !errors.As(err, &refused) || !strings.HasPrefix(refused.Field+" "+refused.Value, setting) ||
			!strings.Contains(err.Error(), `"orders"`) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// TestHandleAndConsumeRefuse: a consumer that lacks something is refused, and the delivery is neither counted nor
// settled.
func TestHandleAndConsumeRefuse(t *testing.T) {
	var absent *counter.Counter
	refuses := func(name string, err error) {
		t.Helper()
		field, _, _ := strings.Cut(name, " ")
		if refused := new(FieldError); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", name, err)
		}
	}
	handle := func(b bench, c Consumer) error {
		t.Helper()
		outcome, err := c.Handle(t.Context(), "/", b.delivery(false))
		if outcome != OutcomeLeave {
			t.Errorf("the outcome %v", outcome)
		}
		b.expect(t, "", "none")
		return err
	}
	for name, change := range map[string]func(*Consumer){
		"Queue":         func(c *Consumer) { c.Queue = "" },
		"Handler":       func(c *Consumer) { c.Handler = nil },
		"Counter":       func(c *Consumer) { c.Counter = nil },
		"Counter (nil)": func(c *Consumer) { c.Counter = absent },
		"MaxRetries":    func(c *Consumer) { c.MaxRetries = 1001 },
	} {
		b := newBench()
		c := *b.Consumer
		c.Handler = ok
		change(&c)
		refuses(name, handle(b, c))
		refuses(name, c.Consume(t.Context(), &amqp.Connection{}))
	}
	for field, keepsOrder := range map[string]func(*Consumer){
		"Ordered":   func(c *Consumer) { c.Ordered = true },
		"HoldLanes": func(c *Consumer) { c.HoldLanes = true },
		"Lane":      func(c *Consumer) { c.Lane = func(amqp.Delivery) string { return "" } },
	} {
		b := newBench()
		c := *b.Consumer
		c.Handler = ok
		keepsOrder(&c)
		refuses(field, handle(b, c))
	}
	_, err := minimal().Handle(t.Context(), "/", amqp.Delivery{MessageId: "m1"})
	if err == nil || !strings.Contains(err.Error(), "no Acknowledger") {
		t.Errorf("a delivery that cannot be settled: %v", err)
	}
	if err := minimal().Consume(t.Context(), nil); err == nil {
		t.Error("a nil connection was accepted")
	}
	recovers := &amqp.Connection{Config: amqp.Config{Recovery: &amqp.Recovery{}}}
	c := minimal()
	c.Check.Instead = func(context.Context, *amqp.Connection) error { return errors.New("it was accepted") }
	if err := c.Consume(t.Context(), recovers); err == nil || !strings.Contains(err.Error(), "Recovery") {
		t.Errorf("a connection that recovers by itself: %v", err)
	}
}
