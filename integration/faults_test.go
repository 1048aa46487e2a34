package integration

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// namedDialer is a dialer whose connections the management API knows by name.
func namedDialer(t *testing.T, name string) func(context.Context) (*amqp.Connection, error) {
	t.Helper()
	return consumer.Dialer(brokerURL(t), amqp.Config{Properties: amqp.Table{"connection_name": name}})
}

func TestLostConnectionCountsNothing(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		t.Parallel() // most of it is waiting
		c, name := counters(t), uniqueName(t, "cut")
		publish(t, queue, "m", 20)
		var lost, runs atomic.Int64
		consume := consumer.Consumer{Queue: queue, Counter: c, Concurrency: 4, Handler: func(ctx context.Context,
			_ amqp.Delivery) error {
			runs.Add(1)
			if lost.Load() > 0 {
				return nil
			}
			<-ctx.Done() // its session died
			lost.Add(1)
			return ctx.Err()
		}}
		stop := runConsumer(t, consume, namedDialer(t, name))
		eventually(t, "four handlers in the middle", func() bool { return runs.Load() == 4 })
		eventually(t, "the connection cut", func() bool { return cut(t, name) })
		eventually(t, "four handlers cancelled and all messages handled", func() bool {
			return lost.Load() == 4 && runs.Load() >= 24
		})
		eventually(t, "an empty queue", func() bool { return queueDepth(t, queue) == 0 })
		stop()
		for r, err := range c.Admin().List(t.Context(), "/", queue) {
			t.Errorf("counted: %+v, %v", r, err)
		}
	})
}

func TestDeletedQueueEndsTheSession(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		conn := dialBroker(t)
		publish(t, queue, "m", 1)
		cancelled := make(chan struct{})
		began := make(chan struct{})
		consume := consumer.Consumer{Queue: queue, Counter: counters(t), Handler: func(ctx context.Context,
			_ amqp.Delivery) error {
			close(began)
			<-ctx.Done()
			close(cancelled)
			return ctx.Err()
		}}
		done := make(chan error, 1)
		go func() { done <- consume.Consume(t.Context(), conn) }()
		<-began
		need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
			return errOf(ch.QueueDelete(queue, false, false, false))
		}))
		<-cancelled
		err := <-done
		if err == nil || !strings.Contains(err.Error(), "cancelled the consumer") {
			t.Errorf("Consume: %v", err)
		}
		if conn.IsClosed() {
			t.Error("Consume closed a connection that it did not open")
		}
	})
}

// graves notes when each message was last rejected.
type graves struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (g *graves) Observe(_ context.Context, e consumer.Event) {
	if e.Outcome == consumer.OutcomeDeadLetter {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.at[e.ID] = time.Now()
	}
}

// since are those that were rejected after t.
func (g *graves) since(t time.Time) (ids []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, at := range g.at {
		if at.After(t) {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestBrokerKilledInTheMiddle(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for _, typ := range queueTypes {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel() // most of it is waiting
			broker := privateBroker(t, servers.RabbitMQOptions{})
			dial := consumer.Dialer(broker.URL, amqp.Config{})
			conn, err := dial(t.Context())
			need(t, err)
			need(t, topology.Declare(t.Context(), conn, topology.Spec{Queue: "orders", Type: typ}))
			_ = conn.Close()
			// A node that is killed within moments of a quorum queue's declaration may forget the queue's log (seen on 3.10.8
			// and 4.3.6: "configured member was not found on this node"), so let this one write it down first.
			need(t, errors.Join(broker.Stop(t.Context()), broker.Start(t.Context())))
			const n = 200
			publishIDs(t, dial, "orders", numbered("m", n))
			c := counters(t)
			var handled [n]atomic.Bool
			var runs atomic.Int64
			rejected := graves{at: map[string]time.Time{}}
			consume := consumer.Consumer{Queue: "orders", Counter: c, Concurrency: 4, Observer: &rejected,
				Handler: func(ctx context.Context, d amqp.Delivery) error {
					runs.Add(1)
					select {
					case <-time.After(5 * time.Millisecond):
					case <-ctx.Done():
						return ctx.Err()
					}
					var i int
					if _, err := fmt.Sscanf(d.MessageId, "m%d", &i); err != nil {
						return err
					}
					if i%20 == 0 {
						return errPoison
					}
					handled[i].Store(true)
					return nil
				}, Backoff: func(int) time.Duration { return 10 * time.Millisecond }}
			stop := runConsumer(t, consume, dial)
			eventually(t, "a quarter of the work", func() bool { return runs.Load() > n/4 })
			need(t, broker.Kill())
			killed := time.Now().Add(time.Second) // the last messages that were sent before may be reported only now
			need(t, broker.Start(t.Context()))
			eventually(t, "all handled or dead-lettered", func() bool {
				for i := range n {
					if i%20 != 0 && !handled[i].Load() {
						return false
					}
				}
				return len(rejected.since(time.Time{})) == n/20 && depthOf(dial, "orders") == 0
			})
			// A quorum queue keeps a dead letter until it has arrived, and may send it twice. A classic one does not know
			// whether the dead letters have arrived that it had sent when it was killed.
			must := rejected.since(time.Time{})
			if typ == topology.Classic {
				must = rejected.since(killed)
			}
			have := map[string]bool{}
			eventually(t, fmt.Sprintf("%q in the dead-letter queue", must), func() bool {
				some, err := takeAll(dial, "orders.dlq")
				for _, d := range some {
					have[d.MessageId] = true
				}
				return err == nil && !slices.ContainsFunc(must, func(id string) bool { return !have[id] })
			})
			stop()
			for r, err := range c.Admin().List(t.Context(), "/", "orders") {
				if err != nil || r.Counted() != 4 || r.Crashes != 0 {
					t.Errorf("record: %+v, %v", r, err)
				}
			}
		})
	}
}

func TestStoreAwayForAWhile(t *testing.T) {
	t.Parallel()
	store := privateStore(t, servers.RedisOptions{})
	c := counterOn(t, store.URL, "")
	eachType(t, func(t *testing.T, queue string) {
		r := start(t, consumer.Consumer{Queue: queue, Counter: c, Handler: failFor("m2"), Prefetch: 20})
		publish(t, queue, "warm", 1)
		eventually(t, "the consumer at work", func() bool { return r.total() == 1 })
		need(t, store.Pause())
		publish(t, queue, "m", 10)
		eventually(t, "first deliveries handled without the store", func() bool { return r.total() == 11 })
		if n := r.of("m2"); n != 1 {
			t.Errorf("the failing message ran %d times while the store was away", n)
		}
		need(t, store.Resume())
		eventually(t, "its dead letter", func() bool { return queueDepth(t, queue+".dlq") == 1 })
		if rec := one(t, c, queue, "m2"); rec.Failures != 4 || r.of("m2") != 4 {
			t.Errorf("%d runs, record %+v", r.of("m2"), rec)
		}
	})
}

func TestOddMessages(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		c := counters(t)
		big, fine := 20<<20, []string{"big"}
		if !brokerVersion(t).Before(4, 0) {
			big = 15 << 20 // they take 16 MiB at most, unless configured
		} else { // to dead-letter these crashes the process of their queue (3.10.8)
			fine = append(fine, "death as text", "death as numbers", "death without fields")
		}
		long := strings.Repeat("x", 255)
		odd := []amqp.Publishing{
			{MessageId: "new\nline"}, {MessageId: "nul\x00"}, {MessageId: long}, {MessageId: "--flag"}, {MessageId: "}{"},
			{MessageId: "death as text", Headers: amqp.Table{"x-death": "yesterday"}},
			{MessageId: "death as numbers", Headers: amqp.Table{"x-death": []any{int32(1), nil}}},
			{MessageId: "death without fields", Headers: amqp.Table{"x-death": []any{amqp.Table{"queue": int64(3)}}}},
			{MessageId: "generation as a number", Headers: amqp.Table{consumer.GenerationHeader: int32(3)}},
			{MessageId: "big", Body: make([]byte, big)},
		}
		var all []publisher.Message
		for _, p := range odd {
			all = append(all, publisher.Message{Key: queue, Publishing: p})
		}
		publishAll(t, all...)
		r := start(t, consumer.Consumer{Queue: queue, Counter: c, Handler: func(_ context.Context, d amqp.Delivery) error {
			if d.MessageId == "big" && len(d.Body) != big || !slices.Contains(fine, d.MessageId) {
				return errPoison
			}
			return nil
		}})
		eventually(t, "all that fail dead-lettered", func() bool { return queueDepth(t, queue+".dlq") == len(odd)-len(fine) })
		for _, p := range odd {
			want := 4
			if slices.Contains(fine, p.MessageId) {
				want = 1
			}
			if n := r.of(p.MessageId); n != want {
				t.Errorf("%q ran %d times, want %d", p.MessageId, n, want)
			}
		}
		if got := one(t, c, queue, "nul\x00").ID; got != "nul\x00" {
			t.Errorf("the record's id is %q", got)
		}
	})
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	good := declared(t, topology.Quorum)
	noDLX, ranked := uniqueName(t, "bare"), uniqueName(t, "ranked")
	deleteLater(t, noDLX, ranked)
	b := newTopo(t)
	b.queue(noDLX, nil)
	b.queue(ranked, amqp.Table{argDLX: good + ".dlx", "x-single-active-consumer": true, "x-max-priority": 3})
	u, err := url.Parse(brokerURL(t))
	need(t, err)
	wrong := *u
	wrong.User = url.UserPassword("guest", "hunter2")
	unreachable := counterOn(t, strings.Replace(managementURL(t), "http://guest:guest", "redis://", 1), "")

	base := consumer.Consumer{Queue: good, Counter: counters(t), Handler: failFor()}
	for _, tc := range []struct {
		name   string
		change func(*consumer.Consumer)
		dial   func(context.Context) (*amqp.Connection, error)
		want   string
	}{
		{"unknown queue", func(c *consumer.Consumer) { c.Queue = "no-such-queue" }, nil, "no-such-queue"},
		{"no dead-letter exchange", func(c *consumer.Consumer) { c.Queue = noDLX }, nil, "x-dead-letter-exchange"},
		{"a limit beyond the broker's", func(c *consumer.Consumer) { c.MaxRetries = 1000 }, nil, "delivery"},
		{"order on a queue of many consumers", func(c *consumer.Consumer) {
			c.Ordered = true
		}, nil, "x-single-active-consumer"},
		{"order among priorities", func(c *consumer.Consumer) { c.Queue, c.Ordered = ranked, true }, nil, "x-max-priority"},
		{"a store that is no Redis", func(c *consumer.Consumer) { c.Counter = unreachable }, nil, "of another kind"},
		{"wrong credentials", nil, func(context.Context) (*amqp.Connection, error) {
			return amqp.Dial(wrong.String())
		}, "username or password"},
		{"unknown vhost", nil, func(context.Context) (*amqp.Connection, error) {
			return amqp.DialConfig(u.String(), amqp.Config{Vhost: "nowhere"})
		}, "nowhere"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, dial := base, tc.dial
			if tc.change != nil {
				tc.change(&c)
			}
			if dial == nil {
				dial = dialer(t)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := c.Run(ctx, dial)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to name %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
	t.Run("AllowDrop", func(t *testing.T) {
		c := base
		c.Queue, c.Check.AllowDrop = noDLX, true
		publish(t, noDLX, "m", 1)
		r := start(t, c)
		eventually(t, "the message handled", func() bool { return r.total() == 1 })
	})
}
