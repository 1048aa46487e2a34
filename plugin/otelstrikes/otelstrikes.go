// Package otelstrikes traces and measures publishers and consumers with OpenTelemetry, by its semantic conventions for
// messaging. Each is one line:
//
//	pub, err := otelstrikes.NewPublisher(plain, nil) // a *publisher.Publisher
//	err = otelstrikes.Instrument(&orders, nil)       // a consumer.Consumer
//
// A message carries the W3C trace context of its publisher in its headers. Neither a second publishing nor a replay
// overwrites that. Each attempt is a trace of its own, linked to the publisher, because a message may be processed
// hours later and many times. Options.Parent makes it a child of the publisher instead.
//
//	send orders        PRODUCER  from publish to confirm
//	process orders     CONSUMER  one for each attempt
//	retry orders       CLIENT    a failed attempt was counted; dead-letter orders likewise
package otelstrikes

import (
	"context"
	"errors"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// scope names the tracer and the meter.
const scope = "github.com/strikesmq/strikes/plugin/otelstrikes"

// Options of the instrumentation. The zero value, like nil, means all defaults.
type Options struct {
	TracerProvider trace.TracerProvider // if nil, the global one
	MeterProvider  metric.MeterProvider // if nil, the global one

	// Parent makes the publisher's span the parent of each attempt. If false, they are linked, and each attempt is a trace
	// of its own.
	Parent bool
}

// telemetry is the tracer and the metrics that the instrumentations share.
type telemetry struct {
	tracer   trace.Tracer
	parent   bool
	sent     metric.Int64Counter
	consumed metric.Int64Counter // deliveries
	outcomes metric.Int64Counter // of deliveries and attempts
	sending  metric.Float64Histogram
	handling metric.Float64Histogram
}

func (o *Options) telemetry() (*telemetry, error) {
	var set Options
	if o != nil {
		set = *o
	}
	if set.TracerProvider == nil {
		set.TracerProvider = otel.GetTracerProvider()
	}
	if set.MeterProvider == nil {
		set.MeterProvider = otel.GetMeterProvider()
	}
	t := &telemetry{tracer: set.TracerProvider.Tracer(scope), parent: set.Parent}
	meter := set.MeterProvider.Meter(scope)
	var errs [5]error
	t.sent, errs[0] = meter.Int64Counter("messaging.client.sent.messages", metric.WithUnit("{message}"),
		metric.WithDescription("Messages that were sent to the broker."))
	t.consumed, errs[1] = meter.Int64Counter("messaging.client.consumed.messages", metric.WithUnit("{message}"),
		metric.WithDescription("Deliveries that were settled, or left to return."))
	t.outcomes, errs[4] = meter.Int64Counter("strikes.outcomes", metric.WithUnit("{outcome}"),
		metric.WithDescription("Outcomes of deliveries and attempts."))
	t.sending, errs[2] = meter.Float64Histogram("messaging.client.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("From publish to confirm."), buckets)
	t.handling, errs[3] = meter.Float64Histogram("messaging.process.duration", metric.WithUnit("s"),
		metric.WithDescription("How long handlers ran."), buckets)
	return t, errors.Join(errs[:]...)
}

// buckets are those of the semantic conventions, and two for handlers that run for minutes.
var buckets = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5,
	10, 60, 300)

// w3c writes and reads the trace context. The baggage of a publisher is not for its consumers.
var w3c propagation.TraceContext

// headers carry a trace context.
type headers amqp.Table

func (h headers) Get(key string) string {
	s, _ := h[key].(string)
	return s
}

func (h headers) Set(key, value string) { h[key] = value }

func (h headers) Keys() []string { return nil } // no propagator asks for them

// contextIn returns the trace context that a message carries.
func contextIn(table amqp.Table) trace.SpanContext {
	return trace.SpanContextFromContext(w3c.Extract(context.Background(), headers(table)))
}

// links returns a link to a context, if it is valid.
func links(c trace.SpanContext) []trace.Link {
	if !c.IsValid() {
		return nil
	}
	return []trace.Link{{SpanContext: c}}
}

// operation are the attributes of spans and metrics that name an operation and its destination. The name of an
// operation is strikes' own, the kind that of the conventions.
func operation(name, kind, destination string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "rabbitmq"), attribute.String("messaging.operation.name", name),
		attribute.String("messaging.operation.type", kind), attribute.String("messaging.destination.name",
			valid(destination)),
	}
}

// of are the attributes of a message.
func of(p amqp.Publishing, key string) []attribute.KeyValue {
	out := []attribute.KeyValue{
		attribute.String("messaging.message.id", valid(p.MessageId)), attribute.Int("messaging.message.body.size",
			len(p.Body)),
		attribute.String("messaging.rabbitmq.destination.routing_key", valid(key)),
	}
	if p.CorrelationId != "" {
		out = append(out, attribute.String("messaging.message.conversation_id", valid(p.CorrelationId)))
	}
	return out
}

// destination names an exchange and routing key as the conventions do for RabbitMQ.
func destination(exchange, key string) string {
	switch {
	case exchange == "":
		return key
	case key == "":
		return exchange
	}
	return exchange + ":" + key
}

// valid replaces bytes that are not UTF-8, because OTLP refuses a whole export for one.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// end ends a span with its error.
func end(span trace.Span, err error, kind string) {
	if err != nil {
		span.SetAttributes(attribute.String("error.type", kind))
		span.SetStatus(codes.Error, valid(err.Error()))
	}
	span.End()
}
