package otelstrikes

import (
	"context"
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/codes"

	"github.com/strikesmq/strikes/publisher"
)

// TestPublishAll: each message has a span with its own error, and carries its own context.
func TestPublishAll(t *testing.T) {
	r := newRecorder()
	away := func(context.Context) (*amqp.Connection, error) { return nil, errors.New("no broker in this test") }
	plain, err := publisher.New(away, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	p, err := NewPublisher(plain, &r.Options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	msgs := []publisher.Message{{Key: "orders"}, {Key: "refunds"}}
	var failed *publisher.BatchError
	if err := p.PublishAll(ctx, msgs); !errors.As(err, &failed) {
		t.Fatalf("%v, want a *BatchError", err)
	}
	spans := r.GetSpans()
	if len(spans) != 2 || spans[0].Name != "send orders" || spans[1].Name != "send refunds" {
		t.Fatalf("spans %v", r.names())
	}
	for _, s := range spans {
		if s.Status.Code != codes.Error {
			t.Errorf("%s: %v", s.Name, s.Status)
		}
	}
	if a, b := msgs[0].Headers["traceparent"], msgs[1].Headers["traceparent"]; a == nil || b == nil || a == b {
		t.Errorf("contexts %v and %v", a, b)
	}
}
