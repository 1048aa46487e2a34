package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

var queueTypes = []topology.Type{topology.Classic, topology.Quorum}

// eachType runs a test on a declared queue of each type.
func eachType(t *testing.T, test func(t *testing.T, queue string)) {
	for _, typ := range queueTypes {
		t.Run(string(typ), func(t *testing.T) { test(t, declared(t, typ)) })
	}
}

// declared returns a queue with the way its dead letters take.
func declared(t *testing.T, typ topology.Type) string {
	t.Helper()
	return declaredAs(t, topology.Spec{Type: typ})
}

func declaredAs(t *testing.T, spec topology.Spec) string {
	t.Helper()
	spec.Queue = uniqueName(t, "way")
	deleteLater(t, spec.Queue)
	need(t, topology.Declare(t.Context(), dialBroker(t), spec))
	return spec.Queue
}

// counters returns a Counter on the real store, with a prefix of the test's own.
func counters(t *testing.T) *counter.Counter {
	t.Helper()
	return counterOn(t, patientURL(t), uniqueName(t, "strikes"))
}

// counterOn returns a Counter on a store of any kind.
func counterOn(t testing.TB, url, prefix string) *counter.Counter {
	t.Helper()
	c, err := rig.Dial(url, prefix)
	need(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// publish sends messages with ids prefix0, prefix1, ... whose bodies are their ids.
func publish(t *testing.T, queue, prefix string, n int) {
	t.Helper()
	publishIDs(t, dialer(t), queue, numbered(prefix, n))
}

// publishBodies sends messages whose ids are the numbers from one to before another.
func publishBodies(t *testing.T, queue string, from, to int, body func(i int) string) {
	t.Helper()
	msgs := make([]publisher.Message, 0, to-from)
	for i := from; i < to; i++ {
		msgs = append(msgs, publisher.Message{Key: queue, Publishing: amqp.Publishing{MessageId: fmt.Sprint(i),
			Body: []byte(body(i))}})
	}
	publishAll(t, msgs...)
}

func publishAll(t *testing.T, msgs ...publisher.Message) {
	t.Helper()
	publishVia(t, dialer(t), msgs)
}

func publishVia(t *testing.T, dial func(context.Context) (*amqp.Connection, error), msgs []publisher.Message) {
	t.Helper()
	p, err := publisher.New(dial, nil)
	need(t, err)
	need(t, errors.Join(p.PublishAll(t.Context(), msgs), p.Close()))
}

// publishBare publishes as a program without the library does, for example messages without an id. It waits for each
// confirm: a quorum queue may lose an unconfirmed message whose connection closes at once.
func publishBare(t testing.TB, queue string, msgs ...amqp.Publishing) {
	t.Helper()
	need(t, onChannel(dialer(t), func(ch *amqp.Channel) error { return confirmed(ch, "", queue, msgs...) }))
}

func confirmed(ch *amqp.Channel, exchange, key string, msgs ...amqp.Publishing) error {
	if err := ch.Confirm(false); err != nil {
		return err
	}
	for _, m := range msgs {
		confirm, err := ch.PublishWithDeferredConfirm(exchange, key, true, false, m)
		if err != nil {
			return err
		}
		select {
		case <-confirm.Done():
		case <-time.After(time.Minute):
		}
		if !confirm.Acked() {
			return fmt.Errorf("publishing to exchange %q, key %q: not confirmed", exchange, key)
		}
	}
	return nil
}

// running is a consumer under test, and the messages for which its handler was called.
type running struct {
	stop func() // ends the consumer, which must settle everything

	mu   sync.Mutex
	runs []string // message ids, in the order in which the handler was called
}

// start runs c until the test ends or stop is called. It fills in the fields that a test does not care for.
func start(t *testing.T, c consumer.Consumer) *running {
	t.Helper()
	r := &running{}
	handler := c.Handler
	c.Handler = func(ctx context.Context, d amqp.Delivery) error {
		r.mu.Lock()
		r.runs = append(r.runs, d.MessageId)
		r.mu.Unlock()
		return handler(ctx, d)
	}
	if c.Backoff == nil {
		c.Backoff = func(int) time.Duration { return 5 * time.Millisecond }
	}
	r.stop = runConsumer(t, c, dialer(t))
	return r
}

// of returns how often the handler was called for a message.
func (r *running) of(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, run := range r.runs {
		if run == id {
			n++
		}
	}
	return n
}

func (r *running) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.runs)
}

func ids(deliveries []amqp.Delivery) []string {
	var out []string
	for _, d := range deliveries {
		out = append(out, d.MessageId)
	}
	return out
}

// one returns the only record of an id.
func one(t *testing.T, c *counter.Counter, queue, id string) counter.Record {
	t.Helper()
	records, err := c.Admin().Get(t.Context(), "/", queue, id)
	if err != nil || len(records) != 1 {
		t.Fatalf("%d records of %s, %v", len(records), id, err)
	}
	return records[0]
}

var errPoison = errors.New("poisonous")

func failFor(poison ...string) consumer.Handler {
	return func(_ context.Context, d amqp.Delivery) error {
		if slices.Contains(poison, d.MessageId) {
			return errPoison
		}
		return nil
	}
}

// TestFailsUntilTheLimitThenDeadLetters: with a prefetch of 1, a message that is requeued also keeps its place.
func TestFailsUntilTheLimitThenDeadLetters(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]consumer.Consumer{
		"requeued":                {Retry: consumer.RetryRequeue, Concurrency: 4},
		"in place":                {Retry: consumer.RetryInPlace, Concurrency: 4},
		"requeued, one at a time": {Retry: consumer.RetryRequeue, Prefetch: 1},
	} {
		t.Run(name, func(t *testing.T) {
			eachType(t, func(t *testing.T, queue string) {
				c := counters(t)
				publish(t, queue, "m", 50)
				of.Queue, of.Counter, of.Handler = queue, c, failFor("m7", "m31")
				r := start(t, of)
				eventually(t, "two dead letters", func() bool { return queueDepth(t, queue+".dlq") == 2 })
				eventually(t, "every message handled", func() bool { return r.total() >= 48+8 })
				r.stop()

				if n := queueDepth(t, queue); n != 0 {
					t.Errorf("%d messages left in the queue", n)
				}
				var order []string
				for i := range 50 {
					id := fmt.Sprint("m", i)
					want := 1
					if id == "m7" || id == "m31" {
						want = 4
					}
					if got := r.of(id); got != want {
						t.Errorf("%s ran %d times, want %d", id, got, want)
					}
					order = append(order, slices.Repeat([]string{id}, want)...)
				}
				if of.Prefetch == 1 && !slices.Equal(r.runs, order) {
					t.Errorf("order of runs:\n got %v\nwant %v", r.runs, order)
				}
				dead := ids(getAll(t, queue+".dlq"))
				if slices.Sort(dead); !slices.Equal(dead, []string{"m31", "m7"}) {
					t.Errorf("dead letters: %v", dead)
				}
				record := one(t, c, queue, "m7")
				if record.State != counter.StateDeadLetter || record.Failures != 4 || record.Reason != errPoison.Error() ||
					record.TTL <= 0 {
					t.Errorf("record: %+v", record)
				}
			})
		})
	}
}

// TestReplayedThenMovedBack replays a dead letter, then moves it back twice as it came; once its first consumer is gone
// before it runs it. Each time it gets a full limit, its record is found, and a system that refuses old fences refuses
// no delivery of it. On 3.10 it may refuse one after the second move: the broker keeps the time of death from the first
// on.
func TestReplayedThenMovedBack(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		c := counters(t)
		publish(t, queue, "m", 1)
		var mu sync.Mutex
		var fences []int64
		fail := func(ctx context.Context, _ amqp.Delivery) error {
			a, _ := consumer.AttemptFrom(ctx)
			mu.Lock()
			defer mu.Unlock()
			fences = append(fences, a.Fence)
			return errPoison
		}
		dlq := &deadletter.Queue{Name: queue + ".dlq", Dial: dialer(t), Records: c.Admin(), Handling: harmless}
		for generation, again := range []func(){
			func() {
				if result, err := dlq.Replay(t.Context(), deadletter.Replay{}); err != nil || result.Done != 1 {
					t.Fatalf("%+v, %v", result, err)
				}
			},
			func() { moveBack(t, queue); giveBack(t, queue) },
			func() { moveBack(t, queue) },
			func() {},
		} {
			r := start(t, consumer.Consumer{Queue: queue, Counter: c, Handler: fail})
			eventually(t, "its dead letter", func() bool { return queueDepth(t, dlq.Name) == 1 })
			if r.stop(); r.total() != 4 {
				t.Errorf("%d attempts in generation %d, want 4", r.total(), generation+1)
			}
			if l := browsed(t, dlq, deadletter.Filter{})[0]; l.Record == nil || l.Reason() != errPoison.Error() {
				t.Errorf("generation %d: the dead letter has the record %+v", generation+1, l.Record)
			}
			again()
		}
		mu.Lock()
		defer mu.Unlock()
		t.Log(fences)
		if brokerVersion(t).Before(4, 0) {
			fences = fences[:12]
		}
		if !slices.IsSorted(fences) {
			t.Errorf("an attempt has an older fence than one before it: %d", fences)
		}
	})
}

// moveBack publishes a dead letter to its queue again as a shovel does, with its headers. It waits until the second of
// the death is over, because x-death has whole seconds.
func moveBack(t *testing.T, queue string) {
	t.Helper()
	time.Sleep(1100 * time.Millisecond)
	d := getAll(t, queue+".dlq")[0]
	publishAll(t, publisher.Message{Key: queue, Publishing: amqp.Publishing{MessageId: d.MessageId, Headers: d.Headers,
		Body: d.Body}})
}

// giveBack has a consumer receive a message and be gone before it runs it.
func giveBack(t *testing.T, queue string) {
	t.Helper()
	err := onChannel(dialer(t), func(ch *amqp.Channel) error {
		d, ok, err := ch.Get(queue, false)
		if err != nil || !ok {
			return fmt.Errorf("no message: %w", err)
		}
		return d.Nack(false, true)
	})
	if err != nil {
		t.Fatalf("giving back to %q: %v", queue, err)
	}
}

// TestDrainLosesNoAck stops a consumer just as it has acked many messages, which a plain close of the channel loses on
// quorum queues if more than 32 acks are under way.
func TestDrainLosesNoAck(t *testing.T) {
	t.Parallel()
	lane := func(d amqp.Delivery) string { return d.MessageId[len(d.MessageId)-1:] }
	for _, typ := range queueTypes {
		queue := declaredAs(t, topology.Spec{Type: typ, SingleActiveConsumer: true})
		for _, c := range []consumer.Consumer{
			{Prefetch: 30, Concurrency: 8},
			{Prefetch: 600, Concurrency: 8},
			{Prefetch: 30, Ordered: true},
			{Prefetch: 100, Concurrency: 16, Ordered: true, Lane: lane},
		} {
			t.Run(fmt.Sprintf("%s/prefetch %d, ordered %v", typ, c.Prefetch, c.Ordered), func(t *testing.T) {
				for range 2 {
					drainLosesNoAck(t, queue, c)
				}
			})
		}
	}
}

func drainLosesNoAck(t *testing.T, queue string, c consumer.Consumer) {
	t.Helper()
	publish(t, queue, "m", 600)
	handled := make(chan struct{}, 600)
	c.Queue, c.Counter = queue, counters(t)
	c.Handler = func(context.Context, amqp.Delivery) error { handled <- struct{}{}; return nil }
	r := start(t, c)
	for range 500 {
		<-handled
	}
	r.stop()
	left := 600 - r.total()
	eventually(t, fmt.Sprintf("%d unhandled messages back", left), func() bool { return queueDepth(t, queue) >= left })
	if back := purged(t, queue); back != left {
		t.Errorf("%d messages came back, %d were not handled", back, left)
	}
}

// purged empties a queue, of which basic.get may not be allowed, and counts its messages.
func purged(t *testing.T, queue string) (n int) {
	t.Helper()
	err := onChannel(dialer(t), func(ch *amqp.Channel) (err error) {
		n, err = ch.QueuePurge(queue, false)
		return err
	})
	if err != nil {
		t.Fatalf("purging %q: %v", queue, err)
	}
	return n
}

// consuming is a log in which it is heard that a consumer was accepted.
type consuming chan struct{}

func (c consuming) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("msg=consuming")) {
		c <- struct{}{}
	}
	return len(line), nil
}

// TestConsumingAgainIsAWarning: who was warned that a session ended hears that the next one consumes.
func TestConsumingAgainIsAWarning(t *testing.T) {
	t.Parallel()
	between, way := proxied(t, brokerURL(t))
	log := new(lockedBuffer)
	runConsumer(t, consumer.Consumer{Queue: declared(t, topology.Classic), Counter: counters(t), Handler: failFor(),
		Logger: slog.New(slog.NewTextHandler(log, nil))}, consumer.Dialer(way, amqp.Config{}))
	says := func(line string) func() bool { return func() bool { return strings.Contains(log.String(), line) } }
	eventually(t, "the first session", says("level=INFO msg=consuming"))
	between.Cut()
	eventually(t, "the second session", says("level=WARN msg=consuming"))
}

// TestStopHandsOverInOrder stops one consumer of a single-active-consumer queue while another waits for its turn.
func TestStopHandsOverInOrder(t *testing.T) {
	t.Parallel()
	for _, typ := range queueTypes {
		t.Run(string(typ), func(t *testing.T) {
			queue := declaredAs(t, topology.Spec{Type: typ, SingleActiveConsumer: true})
			publish(t, queue, "m", 60)
			reached := make(chan struct{})
			c := consumer.Consumer{Queue: queue, Counter: counters(t), Handler: func(ctx context.Context,
				d amqp.Delivery) error {
				if d.MessageId == "m20" {
					close(reached)
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}, DrainTimeout: -1, Prefetch: 1}
			first := start(t, c)
			<-reached
			waits := make(consuming, 1)
			c.Handler, c.Logger = failFor(), slog.New(slog.NewTextHandler(waits, nil))
			second := start(t, c)
			<-waits
			first.stop()
			eventually(t, "the rest handled", func() bool { return second.total() == 40 })
			for i, id := range second.runs {
				if want := fmt.Sprint("m", 20+i); id != want {
					t.Fatalf("the second consumer began with %v, want order from m20", second.runs[:i+1])
				}
			}
		})
	}
}

// laneOf is the lane of a message whose body is its number and its lane.
func laneOf(d amqp.Delivery) string {
	_, lane, _ := strings.Cut(string(d.Body), " ")
	return lane
}

type observer func(consumer.Event)

func (o observer) Observe(_ context.Context, e consumer.Event) { o(e) }
