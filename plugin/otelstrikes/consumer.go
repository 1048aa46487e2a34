package otelstrikes

import (
	"cmp"
	"context"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/strikesmq/strikes/consumer"
)

// Instrument makes c's attempts spans, and counts its outcomes. Set c.Queue first, because the spans have its name. An
// Observer that c has keeps its events; a Tracer is replaced.
func Instrument(c *consumer.Consumer, opts *Options) error {
	t, err := opts.telemetry()
	watch := &watcher{t, c.Queue, c.Observer}
	c.Tracer, c.Observer = watch, watch
	return err
}

// watcher is the Tracer and the Observer of a consumer.
type watcher struct {
	*telemetry
	queue string
	next  consumer.Observer
}

// AttemptStart begins the span of an attempt.
func (w *watcher) AttemptStart(ctx context.Context, d amqp.Delivery) context.Context {
	attempt, _ := consumer.AttemptFrom(ctx)
	created := contextIn(d.Headers)
	if w.parent {
		ctx = trace.ContextWithRemoteSpanContext(ctx, created)
	}
	p := amqp.Publishing{MessageId: d.MessageId, CorrelationId: d.CorrelationId, Body: d.Body}
	ctx, _ = w.tracer.Start(ctx, "process "+w.queue, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithLinks(links(created)...),
		trace.WithAttributes(operation("process", "process", w.queue)...), trace.WithAttributes(of(p, d.RoutingKey)...),
		trace.WithAttributes(attribute.Int("strikes.attempt", attempt.Number), attribute.Int("strikes.limit", attempt.Last)))
	return ctx
}

// AttemptEnd ends it.
func (w *watcher) AttemptEnd(ctx context.Context, e consumer.Event) {
	span := trace.SpanFromContext(ctx)
	attributes, kind := operation("process", "process", w.queue), cmp.Or(string(e.Cause), notCounted)
	if e.Err != nil {
		attributes = append(attributes, attribute.String("error.type", kind))
	}
	if e.Cause != "" {
		span.SetAttributes(attribute.String("strikes.cause", string(e.Cause)))
	}
	w.handling.Record(ctx, e.Ran.Seconds(), metric.WithAttributes(attributes...))
	end(span, e.Err, kind)
}

// notCounted is the error.type of an attempt that failed without a Cause: the handler said NotCounted, or it was
// stopped.
const notCounted = "not-counted"

// last are the final outcomes: each delivery ends with exactly one.
var last = []consumer.Outcome{
	consumer.OutcomeAck, consumer.OutcomeRequeue, consumer.OutcomeDeadLetter, consumer.OutcomeMove,
	consumer.OutcomeSuperseded,
	consumer.OutcomeLeave,
}

// Observe counts an outcome. That of a failed attempt is a span beside the attempt's.
func (w *watcher) Observe(ctx context.Context, e consumer.Event) {
	if w.next != nil {
		w.next.Observe(ctx, e)
	}
	attributes := append(operation(string(e.Outcome), "settle", w.queue), attribute.String("strikes.outcome",
		string(e.Outcome)))
	if e.Cause != "" {
		attributes = append(attributes, attribute.String("strikes.cause", string(e.Cause)))
	}
	w.outcomes.Add(ctx, 1, metric.WithAttributes(attributes...))
	if slices.Contains(last, e.Outcome) {
		w.consumed.Add(ctx, 1, metric.WithAttributes(attributes...))
	}
	if e.Outcome != consumer.OutcomeRetry && e.Outcome != consumer.OutcomeDeadLetter {
		return
	}
	_, span := w.tracer.Start(ctx, string(e.Outcome)+" "+w.queue, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attributes...),
		trace.WithAttributes(attribute.String("messaging.message.id", valid(e.ID)), attribute.Int("strikes.attempt",
			e.Attempt), attribute.Int("strikes.limit", e.Limit)))
	if e.Outcome == consumer.OutcomeDeadLetter && e.Err != nil {
		span.SetStatus(codes.Error, valid(e.Err.Error()))
	}
	span.End()
}
