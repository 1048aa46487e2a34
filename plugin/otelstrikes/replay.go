package otelstrikes

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/strikesmq/strikes/deadletter"
)

// ReplayTracer is a deadletter.Tracer. It is safe for concurrent use.
type ReplayTracer struct{ telemetry *telemetry }

var _ deadletter.Tracer = (*ReplayTracer)(nil)

// NewReplayTracer returns a tracer for deadletter.Replay. A nil opts means all defaults. The error is that of a metric
// which the MeterProvider refuses.
func NewReplayTracer(opts *Options) (*ReplayTracer, error) {
	t, err := opts.telemetry()
	return &ReplayTracer{t}, err
}

// ReplayStart begins the span of a replayed message, linked to its publisher and to the replay before. The message
// keeps its trace context, and carries that of the replay in ReplayHeader.
func (r *ReplayTracer) ReplayStart(ctx context.Context, to deadletter.Target, msg *amqp.Publishing) context.Context {
	destination := valid(destination(to.Exchange, to.Key))
	ctx, _ = r.telemetry.tracer.Start(ctx, "replay "+destination, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithLinks(links(contextIn(msg.Headers), replayIn(msg.Headers))...),
		trace.WithAttributes(operation("replay", "send", destination)...), trace.WithAttributes(of(*msg, to.Key)...))
	own := amqp.Table{}
	w3c.Inject(ctx, headers(own))
	if own["traceparent"] != nil {
		msg.Headers[ReplayHeader] = own["traceparent"]
	}
	return ctx
}

// ReplayEnd ends the span of a replayed message, with err if it was not confirmed.
func (r *ReplayTracer) ReplayEnd(ctx context.Context, err error) {
	attributes := operation("replay", "send", "")[:3]
	if err != nil {
		attributes = append(attributes, attribute.String("error.type", errorType(err)))
	}
	r.telemetry.sent.Add(ctx, 1, metric.WithAttributes(attributes...))
	end(trace.SpanFromContext(ctx), err, errorType(err))
}
