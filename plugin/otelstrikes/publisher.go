package otelstrikes

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/strikesmq/strikes/publisher"
)

// Publisher is a publisher.Publisher that adds the trace context to messages. It is safe for concurrent use.
type Publisher struct {
	*publisher.Publisher
	telemetry *telemetry
}

// NewPublisher returns a Publisher that traces the messages that p publishes. Its Close closes p. A nil opts means all
// defaults. The error is that of a metric which the MeterProvider refuses.
func NewPublisher(p *publisher.Publisher, opts *Options) (*Publisher, error) {
	t, err := opts.telemetry()
	return &Publisher{p, t}, err
}

// Publish is publisher.Publish in a span. A trace context that the message carries already stays, and is linked.
func (p *Publisher) Publish(ctx context.Context, exchange, key string, msg amqp.Publishing) (id string, err error) {
	publisher.Stamp(&msg)
	ctx, done := p.telemetry.send(ctx, exchange, key, &msg)
	id, err = p.Publisher.Publish(ctx, exchange, key, msg)
	done(err)
	return id, err
}

// PublishAll is publisher.PublishAll with a span for each message.
func (p *Publisher) PublishAll(ctx context.Context, msgs []publisher.Message) error {
	done := make([]func(error), len(msgs))
	for i := range msgs {
		publisher.Stamp(&msgs[i].Publishing)
		_, done[i] = p.telemetry.send(ctx, msgs[i].Exchange, msgs[i].Key, &msgs[i].Publishing)
	}
	err := p.Publisher.PublishAll(ctx, msgs)
	var failed *publisher.BatchError
	errors.As(err, &failed)
	for i := range done {
		if failed != nil {
			done[i](failed.Errs[i])
		} else {
			done[i](nil)
		}
	}
	return err
}

// send begins the span of a message, and gives its context to the message.
func (t *telemetry) send(ctx context.Context, exchange, key string, msg *amqp.Publishing) (context.Context,
	func(error)) {
	begun, to := time.Now(), destination(exchange, key)
	common := operation("send", "send", to)
	name := "send " + valid(cmp.Or(exchange, key)) // an exchange has fewer values than its routing keys
	created := contextIn(msg.Headers)
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer), trace.WithLinks(links(created)...),
		trace.WithAttributes(common...), trace.WithAttributes(of(*msg, key)...))
	if !created.IsValid() {
		carried := maps.Clone(msg.Headers)
		if carried == nil {
			carried = amqp.Table{}
		}
		w3c.Inject(ctx, headers(carried))
		msg.Headers = carried
	}
	return ctx, func(err error) {
		counted := operation("send", "send", cmp.Or(exchange, key)) // a metric of each routing key would be too many
		if err != nil {
			counted = append(counted, attribute.String("error.type", errorType(err)))
		}
		with := metric.WithAttributes(counted...)
		t.sent.Add(ctx, 1, with)
		t.sending.Record(ctx, time.Since(begun).Seconds(), with)
		end(span, err, errorType(err))
	}
}

// errorType tells errors of a publisher apart, with few values.
func errorType(err error) string {
	var failed *publisher.Error
	switch {
	case errors.As(err, &failed) && failed.Undecided:
		return "undecided"
	case errors.Is(err, publisher.ErrUnroutable):
		return "unroutable"
	case errors.Is(err, publisher.ErrInvalid):
		return "invalid"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "not-sent"
	}
	return "_OTHER"
}
