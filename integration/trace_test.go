package integration

import (
	"context"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/plugin/otelstrikes"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// traced returns the options of a publisher or a consumer, and the exporter that keeps its spans.
func traced() (*otelstrikes.Options, *tracetest.InMemoryExporter) {
	exporter := tracetest.NewInMemoryExporter()
	return &otelstrikes.Options{TracerProvider: sdk.NewTracerProvider(sdk.WithSyncer(exporter))}, exporter
}

// TestTraceOfAMessage follows a message over the broker: published, failed twice, replayed, and handled.
func TestTraceOfAMessage(t *testing.T) {
	t.Parallel()
	queue := declared(t, topology.Quorum)
	opts, sending := traced()
	plain, err := publisher.New(dialer(t), nil)
	need(t, err)
	pub, err := otelstrikes.NewPublisher(plain, opts)
	need(t, err)
	t.Cleanup(func() { pub.Close() })
	need(t, errOf(pub.Publish(t.Context(), "", queue, amqp.Publishing{MessageId: "order 17"})))

	opts, consuming := traced()
	c := consumer.Consumer{
		Queue: queue, Counter: counters(t), MaxRetries: 1, Backoff: func(int) time.Duration { return time.Millisecond },
		Handler: func(_ context.Context, d amqp.Delivery) error {
			if d.Headers[deadletter.GenerationHeader] == nil {
				return errPoison
			}
			return nil
		},
	}
	need(t, otelstrikes.Instrument(&c, opts))
	stop := runConsumer(t, c, dialer(t))
	eventually(t, "the dead letter", func() bool { return queueDepth(t, queue+".dlq") == 1 })
	need(t, errOf(deadLetterQueue(t, queue).Replay(t.Context(), deadletter.Replay{})))
	eventually(t, "five spans", func() bool { return len(consuming.GetSpans()) == 5 })
	stop()

	published, attempts := sending.GetSpans(), consuming.GetSpans()
	if len(published) != 1 || published[0].Name != "send "+queue {
		t.Fatalf("published %+v", published)
	}
	sent := published[0].SpanContext
	var names []string
	for _, s := range attempts {
		names = append(names, s.Name)
	}
	if want := []string{"process " + queue, "retry " + queue, "process " + queue, "dead-letter " + queue,
		"process " + queue}; !slices.Equal(names, want) {
		t.Fatalf("got %q, want %q", names, want)
	}
	for _, i := range []int{0, 2, 4} {
		s := attempts[i]
		if len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != sent.SpanID() ||
			s.SpanContext.TraceID() == sent.TraceID() {
			t.Errorf("span %d: %+v, want the link %v alone", i, s, sent.SpanID())
		}
	}
	for _, i := range []int{1, 3} {
		if attempts[i].Parent.SpanID() != attempts[i-1].SpanContext.SpanID() {
			t.Errorf("span %d: %+v is not below its attempt", i, attempts[i])
		}
	}
}
