package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/plugin/otelstrikes"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// traced is a process that publishes or consumes. It prints its spans.
type traced struct{ Role, AMQP, Redis, Prefix, Queue string }

// seenSpan is a span of another process.
type seenSpan struct {
	Name, ID, Trace, Parent string
	Links                   []string // ids of spans
}

func (p traced) run() error {
	exporter := tracetest.NewInMemoryExporter()
	opts := &otelstrikes.Options{TracerProvider: sdk.NewTracerProvider(sdk.WithSyncer(exporter))}
	role := map[string]func(*otelstrikes.Options) error{"publish": p.publish, "consume": p.consume}[p.Role]
	if err := role(opts); err != nil {
		return err
	}
	var all []seenSpan
	for _, s := range exporter.GetSpans() {
		seen := seenSpan{Name: s.Name, ID: s.SpanContext.SpanID().String(), Trace: s.SpanContext.TraceID().String(),
			Parent: s.Parent.SpanID().String()}
		for _, l := range s.Links {
			seen.Links = append(seen.Links, l.SpanContext.SpanID().String())
		}
		all = append(all, seen)
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

func (p traced) dial(ctx context.Context) (*amqp.Connection, error) {
	return consumer.Dialer(p.AMQP, amqp.Config{})(ctx)
}

func (p traced) publish(opts *otelstrikes.Options) error {
	plain, err := publisher.New(p.dial, nil)
	if err != nil {
		return err
	}
	pub, err := otelstrikes.NewPublisher(plain, opts)
	if err != nil {
		return err
	}
	_, err = pub.Publish(context.Background(), "", p.Queue, amqp.Publishing{MessageId: "order 17"})
	return errors.Join(err, pub.Close())
}

// consume fails a message until it was replayed, and ends with the first success.
func (p traced) consume(opts *otelstrikes.Options) error {
	counts, err := counter.Dial(p.Redis, &counter.Options{Prefix: p.Prefix})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	c := consumer.Consumer{
		Queue: p.Queue, Counter: counts, MaxRetries: 1, Backoff: func(int) time.Duration { return time.Millisecond },
		Handler: func(_ context.Context, d amqp.Delivery) error {
			if d.Headers[deadletter.GenerationHeader] == nil {
				return errPoison
			}
			return nil
		},
		Observer: observer(func(e consumer.Event) {
			if e.Outcome == consumer.OutcomeAck {
				stop()
			}
		}),
	}
	if err := otelstrikes.Instrument(&c, opts); err != nil {
		return err
	}
	return errors.Join(c.Run(ctx, p.dial), counts.Close())
}

// start runs the process, and returns a function that waits for its spans.
func (p traced) start(t *testing.T) func() []seenSpan {
	t.Helper()
	cmd := worker{Trace: &p}.command(t)
	var out bytes.Buffer
	cmd.Stdout = &out
	need(t, cmd.Start())
	return func() (spans []seenSpan) {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s: %v", p.Role, err)
		}
		if err := json.Unmarshal(out.Bytes(), &spans); err != nil {
			t.Fatalf("%s: %v: %q", p.Role, err, &out)
		}
		return spans
	}
}

// TestTraceOverProcesses follows a message: published, failed twice, replayed, and handled.
func TestTraceOverProcesses(t *testing.T) {
	t.Parallel()
	queue := declared(t, topology.Quorum)
	p := traced{AMQP: brokerURL(t), Redis: patientURL(t), Prefix: uniqueName(t, "strikes"), Queue: queue}
	as := func(role string) func() []seenSpan {
		t.Helper()
		q := p
		q.Role = role
		return q.start(t)
	}
	consumed := as("consume")
	published := as("publish")()
	eventually(t, "the dead letter", func() bool { return queueDepth(t, queue+".dlq") == 1 })
	_, err := deadLetterQueue(t, queue).Replay(t.Context(), deadletter.Replay{})
	need(t, err)
	attempts := consumed()

	if len(published) != 1 || published[0].Name != "send "+queue {
		t.Fatalf("published %+v", published)
	}
	sent := published[0]
	var names []string
	for _, s := range attempts {
		names = append(names, s.Name)
	}
	if want := []string{"process " + queue, "retry " + queue, "process " + queue, "dead-letter " + queue,
		"process " + queue}; !slices.Equal(names, want) {
		t.Fatalf("got %q, want %q", names, want)
	}
	for _, i := range []int{0, 2, 4} {
		if s := attempts[i]; !slices.Equal(s.Links, []string{sent.ID}) || s.Trace == sent.Trace {
			t.Errorf("span %d: %+v, want the link %q alone", i, s, sent.ID)
		}
	}
	for _, i := range []int{1, 3} {
		if attempts[i].Parent != attempts[i-1].ID {
			t.Errorf("span %d: %+v is not below its attempt", i, attempts[i])
		}
	}
}
