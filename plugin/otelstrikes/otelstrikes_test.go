package otelstrikes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/publisher"
)

// sink is the broker's side of a delivery.
type sink struct{}

func (sink) Ack(uint64, bool) error        { return nil }
func (sink) Nack(uint64, bool, bool) error { return nil }
func (sink) Reject(uint64, bool) error     { return nil }

// recorder keeps spans and metrics in memory.
type recorder struct {
	*tracetest.InMemoryExporter
	*metric.ManualReader
	Options
}

func newRecorder() recorder {
	r := recorder{InMemoryExporter: tracetest.NewInMemoryExporter(), ManualReader: metric.NewManualReader()}
	r.TracerProvider = sdk.NewTracerProvider(sdk.WithSyncer(r.InMemoryExporter))
	r.MeterProvider = metric.NewMeterProvider(metric.WithReader(r.ManualReader))
	return r
}

func (r recorder) names() []string {
	var names []string
	for _, s := range r.GetSpans() {
		names = append(names, s.Name)
	}
	return names
}

// instrumented is a consumer whose handler always fails, with one retry.
func instrumented(t *testing.T, r recorder) consumer.Consumer {
	t.Helper()
	c := consumer.Consumer{
		Queue: "orders", Handler: func(context.Context, amqp.Delivery) error { return errors.New("the bank is busy") },
		Counter: counter.NewMemory(nil), MaxRetries: 1, Retry: consumer.RetryInPlace, Backoff: func(int) time.Duration {
			return 0
		},
	}
	if err := Instrument(&c, &r.Options); err != nil {
		t.Fatal(err)
	}
	return c
}

// handled runs a handler that always fails, with one retry, on a message with these headers.
func handled(t *testing.T, r recorder, table amqp.Table) {
	t.Helper()
	c := instrumented(t, r)
	if _, err := c.Handle(t.Context(), "", amqp.Delivery{Acknowledger: sink{}, MessageId: "order 17",
		Headers: table}); err != nil {
		t.Fatal(err)
	}
}

// published returns the headers of a message that was sent in a span.
func published(t *testing.T, r recorder, table amqp.Table) (amqp.Publishing, trace.SpanContext) {
	t.Helper()
	tel, err := r.telemetry()
	if err != nil {
		t.Fatal(err)
	}
	msg := amqp.Publishing{MessageId: "order 17", Headers: table}
	ctx, done := tel.send(t.Context(), "", "orders", &msg)
	done(nil)
	return msg, trace.SpanContextFromContext(ctx)
}

// TestAttemptsAreLinked: each attempt is a trace of its own, linked to the publisher, with a settle span below it.
func TestAttemptsAreLinked(t *testing.T) {
	r := newRecorder()
	msg, sent := published(t, r, nil)
	handled(t, r, msg.Headers)
	spans := r.GetSpans()
	if want := []string{"send orders", "process orders", "retry orders", "process orders",
		"dead-letter orders"}; !slices.Equal(r.names(), want) {
		t.Fatalf("got %q, want %q", r.names(), want)
	}
	if spans[0].SpanKind != trace.SpanKindProducer {
		t.Error("the kind of a send is", spans[0].SpanKind)
	}
	for number, i := range []int{1, 3} {
		attempt, settle := spans[i], spans[i+1]
		if attempt.SpanKind != trace.SpanKindConsumer || attempt.Parent.IsValid() ||
			attempt.SpanContext.TraceID() == sent.TraceID() ||
			len(attempt.Links) != 1 || attempt.Links[0].SpanContext.SpanID() != sent.SpanID() ||
			attempt.Status.Code != codes.Error {
			t.Errorf("attempt %d: %+v", number+1, attempt)
		}
		if settle.SpanKind != trace.SpanKindClient || settle.Parent.SpanID() != attempt.SpanContext.SpanID() {
			t.Errorf("settlement %d: %+v", number+1, settle)
		}
		have := attribute.NewSet(slices.Concat(attempt.Attributes, settle.Attributes)...)
		for key, want := range map[attribute.Key]attribute.Value{
			"strikes.attempt": attribute.IntValue(number + 1), "strikes.limit": attribute.IntValue(2),
			"strikes.cause":    attribute.StringValue("failed"),
			"strikes.outcome":  attribute.StringValue([]string{"retry", "dead-letter"}[number]),
			"messaging.system": attribute.StringValue("rabbitmq"), "messaging.message.id": attribute.StringValue("order 17"),
		} {
			if got, _ := have.Value(key); got != want {
				t.Errorf("attempt %d: %s is %v, want %v", number+1, key, got.String(), want.String())
			}
		}
	}
}

// TestParent: with the option, attempts continue the publisher's trace.
func TestParent(t *testing.T) {
	r := newRecorder()
	r.Parent = true
	msg, sent := published(t, r, nil)
	handled(t, r, msg.Headers)
	for _, s := range r.GetSpans()[1:] {
		if s.SpanContext.TraceID() != sent.TraceID() || s.Name == "process orders" && s.Parent.SpanID() != sent.SpanID() {
			t.Errorf("%+v", s)
		}
	}
}

// TestContextStays: a message that is published again keeps its trace context.
func TestContextStays(t *testing.T) {
	r := newRecorder()
	first, created := published(t, r, amqp.Table{"x": int32(1)})
	again, _ := published(t, r, first.Headers)
	if again.Headers["traceparent"] != first.Headers["traceparent"] || again.Headers["x"] != int32(1) {
		t.Error(again.Headers)
	}
	r.Reset()
	handled(t, r, again.Headers)
	if l := r.GetSpans()[0].Links; len(l) != 1 || l[0].SpanContext.SpanID() != created.SpanID() {
		t.Errorf("the attempt is linked to %+v, want %v", l, created)
	}
}

// TestHostileContext: no header that a publisher writes ends an attempt.
func TestHostileContext(t *testing.T) {
	for _, value := range []any{"", "00-xyz", int64(7), []byte("\xff"), nil,
		"00-00000000000000000000000000000000-0000000000000000-01"} {
		r := newRecorder()
		handled(t, r, amqp.Table{"traceparent": value})
		if links := r.GetSpans()[0].Links; len(links) != 0 {
			t.Errorf("%v: %+v", value, links)
		}
	}
}

// TestMetrics: the names are those of the conventions, and no attribute has a value for each message.
func TestMetrics(t *testing.T) {
	r := newRecorder()
	msg, _ := published(t, r, nil)
	handled(t, r, msg.Headers)
	var got metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int64{}
	for _, m := range got.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				seen[m.Name] += p.Value
				if p.Attributes.HasValue("messaging.message.id") {
					t.Error(m.Name, "has the id of the message")
				}
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				seen[m.Name] += int64(p.Count)
			}
		}
	}
	for name, want := range map[string]int64{
		"messaging.client.sent.messages": 1, "messaging.client.operation.duration": 1,
		"messaging.client.consumed.messages": 1, "messaging.process.duration": 2,
		"strikes.outcomes": 2,
	} {
		if seen[name] != want {
			t.Errorf("%s: %d, want %d", name, seen[name], want)
		}
	}
}

// TestNotCountedHasAnErrorType holds that a span with an error says which, though such an attempt has no cause.
func TestNotCountedHasAnErrorType(t *testing.T) {
	r := newRecorder()
	c := instrumented(t, r)
	ctx := c.Tracer.AttemptStart(t.Context(), amqp.Delivery{MessageId: "m"})
	c.Tracer.AttemptEnd(ctx, consumer.Event{Err: errors.New("the bank is closed")})
	for _, a := range r.GetSpans()[0].Attributes {
		if a.Key == "error.type" && a.Value.AsString() == notCounted {
			return
		}
	}
	t.Errorf("attributes: %+v", r.GetSpans()[0].Attributes)
}

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

// TestRoutingKeysAreNoMetrics: a publisher with a routing key for each customer has one series.
func TestRoutingKeysAreNoMetrics(t *testing.T) {
	r := newRecorder()
	tel, err := r.telemetry()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		_, done := tel.send(t.Context(), "shop", fmt.Sprint("customer.", i), &amqp.Publishing{})
		done(nil)
	}
	var got metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	for _, m := range got.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && len(sum.DataPoints) != 1 {
			t.Errorf("%s has %d series", m.Name, len(sum.DataPoints))
		}
	}
}

// TestTextsAreValid: OTLP refuses all spans, or metrics, of an export for one text that is no UTF-8.
func TestTextsAreValid(t *testing.T) {
	r := newRecorder()
	tel, err := r.telemetry()
	if err != nil {
		t.Fatal(err)
	}
	message := amqp.Publishing{MessageId: "a\xff", CorrelationId: "b\xff", Headers: amqp.Table{}}
	for _, exchange := range []string{"", "shop", "d\xff"} {
		_, done := tel.send(t.Context(), exchange, "c\xff", &message)
		done(errors.New("e\xff"))
	}
	var got metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v", got); !utf8.ValidString(text) {
		t.Errorf("the metrics have another byte: %q", text)
	}
	for _, s := range r.GetSpans() {
		texts := []string{s.Name, s.Status.Description}
		for _, a := range s.Attributes {
			texts = append(texts, a.Value.String())
		}
		if !utf8.ValidString(strings.Join(texts, "")) {
			t.Errorf("a span has another byte: %q", texts)
		}
	}
}
