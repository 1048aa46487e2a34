package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// errOf is the error of a call whose result the test does not need.
func errOf[T any](_ T, err error) error { return err }

// channel is the session's side of a delivery: it notes how it was settled.
type channel struct {
	mu   sync.Mutex
	got  []string
	fail error
}

func (c *channel) settle(what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	c.got = append(c.got, what)
	return nil
}

func (c *channel) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.got, ", ")
}

func (c *channel) Ack(_ uint64, multiple bool) error {
	return c.settle(fmt.Sprintf("ack multiple=%v", multiple))
}

func (c *channel) Nack(_ uint64, _, requeue bool) error {
	return c.settle(fmt.Sprintf("nack requeue=%v", requeue))
}

func (c *channel) Reject(uint64, bool) error { return c.settle("reject") }

// store is a Memory that can be away, and that counts the steps it was asked for.
type store struct {
	*counter.Memory
	down  atomic.Bool
	steps atomic.Int64

	controls atomic.Int64 // reads
	late     atomic.Int64 // the time.Duration that a read takes
}

var errDown = errors.New("store down")

func newStore() *store { return &store{Memory: counter.NewMemory(nil)} }

func (s *store) Start(ctx context.Context, a counter.Attempt, mode rules.Mode, limit int) (counter.Reply, error) {
	if s.steps.Add(1); s.down.Load() {
		return counter.Reply{}, errDown
	}
	return s.Memory.Start(ctx, a, mode, limit)
}

func (s *store) Begun(ctx context.Context, a counter.Attempt) (counter.Reply, error) {
	if s.steps.Add(1); s.down.Load() {
		return counter.Reply{}, errDown
	}
	return s.Memory.Begun(ctx, a)
}

func (s *store) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	if s.steps.Add(1); s.down.Load() {
		return counter.Reply{}, errDown
	}
	return s.Memory.Fail(ctx, a, f)
}

func (s *store) End(ctx context.Context, a counter.Attempt, ok bool) error {
	if s.steps.Add(1); s.down.Load() {
		return errDown
	}
	return s.Memory.End(ctx, a, ok)
}

// record returns the stored record of message "m1", shortened.
func (s *store) record(t *testing.T) string {
	t.Helper()
	records, err := s.Get(t.Context(), "/", "orders", "m1")
	if err != nil || len(records) > 1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if len(records) == 0 {
		return "none"
	}
	r := records[0]
	return fmt.Sprintf("%q %d+%d marked %v", r.State, r.Failures, r.Crashes, r.OpenToken != "")
}

// bench is a Consumer on a store, with a delivery of message "m1".
type bench struct {
	*Consumer
	isolation *isolation // if nil, that of this process
	route     *route
	store     *store
	acks      *channel
	events    *[]string
}

func newBench() bench {
	b := bench{store: newStore(), acks: &channel{}, events: &[]string{}}
	b.Consumer = &Consumer{
		Queue: "orders", Counter: b.store, Backoff: func(failed int) time.Duration {
			return time.Duration(failed) * time.Second
		},
		Observer: observe(func(e Event) { *b.events = append(*b.events, string(e.Outcome)) }),
	}
	return b
}

// sessionOn returns a session on a store. The Consumer is as c says, on queue "orders".
func sessionOn(store Counter, c Consumer) *session {
	c.Queue, c.Counter = "orders", store
	return newSession(c.withDefaults(), "/", nil)
}

// session returns a session of c. Fields without a value are those of the bench.
func (b bench) session(c Consumer) *session {
	set, usual := reflect.ValueOf(&c).Elem(), reflect.ValueOf(b.Consumer).Elem()
	for i := range set.NumField() {
		if set.Field(i).IsZero() {
			set.Field(i).Set(usual.Field(i))
		}
	}
	return b.placed(newSession(c.withDefaults(), "/", nil))
}

// placed gives a session the isolation and the route of the bench.
func (b bench) placed(s *session) *session {
	s.isolation, s.route = cmp.Or(b.isolation, s.isolation), b.route
	return s
}

// Handle handles one delivery with h.
func (b bench) Handle(ctx context.Context, d amqp.Delivery, h Handler) (Outcome, error) {
	c := *b.Consumer
	c.Handler = h
	if b.isolation == nil && b.route == nil {
		return c.Handle(ctx, "/", d)
	}
	return b.placed(newSession(c.single(), "/", nil)).handle(ctx, d)
}

type observe func(Event)

func (o observe) Observe(_ context.Context, e Event) { o(e) }

func (b bench) delivery(redelivered bool) amqp.Delivery {
	return amqp.Delivery{Acknowledger: b.acks, DeliveryTag: 1, MessageId: "m1", Redelivered: redelivered}
}

// queued returns the first deliveries of messages with these ids.
func (b bench) queued(ids ...string) chan amqp.Delivery {
	deliveries := make(chan amqp.Delivery, len(ids))
	for i, id := range ids {
		d := b.delivery(false)
		d.MessageId, d.DeliveryTag = id, uint64(i+1)
		deliveries <- d
	}
	return deliveries
}

func (b bench) expect(t *testing.T, settlements, record string) {
	t.Helper()
	if got := b.acks.String(); got != settlements {
		t.Errorf("settled: %s; want %s", got, settlements)
	}
	if got := b.store.record(t); got != record {
		t.Errorf("record: %s; want %s", got, record)
	}
}

func ok(context.Context, amqp.Delivery) error { return nil }

var errBoom = errors.New("boom")

func boom(context.Context, amqp.Delivery) error { return errBoom }
