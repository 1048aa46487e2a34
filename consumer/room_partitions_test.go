package consumer

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
)

// partitioned is a consumer of a partitioned queue, changed.
func partitioned(change func(*Consumer)) *Consumer {
	c := &Consumer{Queue: "orders", Counter: counter.NewMemory(nil), Ordered: true, Partitions: 8,
		Handler: func(_ context.Context, _ amqp.Delivery) error { return nil }}
	change(c)
	return c
}

// TestLaneIsTheRoutingKey: a message that is replayed to the partition itself keeps its first routing key as its lane.
// Headers that were written for another message count as absent.
func TestLaneIsTheRoutingKey(t *testing.T) {
	replayed := func(of string) amqp.Table {
		headers := amqp.Table{broker.LineageHeader: amqp.Table{"exchange": "orders", "key": "customer-1"}}
		broker.WriteFor(headers, "", of, nil)
		return headers
	}
	room := find[*partitionRoom](newSession(partitioned(func(*Consumer) {}).withDefaults(), "/", nil).rooms)
	s := room.session(&amqp.Connection{}, 3, nil)
	ctx, stop := context.WithCancel(t.Context())
	stop() // each delivery is left
	s.prepare(ctx, ctx)
	for _, tt := range []struct {
		d    amqp.Delivery
		want string
	}{
		{amqp.Delivery{Exchange: "orders", RoutingKey: "customer-1"}, "customer-1"},
		{amqp.Delivery{Exchange: "orders", RoutingKey: "customer-2", Headers: replayed("m1")}, "customer-2"},
		{amqp.Delivery{RoutingKey: "orders.3", Headers: replayed("m1")}, "customer-1"},
		{amqp.Delivery{RoutingKey: "orders.3", Headers: replayed("m2")}, "orders.3"},
		{amqp.Delivery{RoutingKey: "orders.3"}, "orders.3"},
	} {
		tt.d.MessageId = "m1"
		if got := s.take(ctx, tt.d).lane; got != tt.want {
			t.Errorf("%+v: lane %q, want %q", tt.d, got, tt.want)
		}
	}
	s.tasks.Wait()
	own := func(amqp.Delivery) string { return "mine" }
	c := (&Consumer{Ordered: true, Partitions: 8, Lane: own}).withDefaults()
	if c.Lane(amqp.Delivery{RoutingKey: "k"}) != "mine" {
		t.Error("a Lane that is given is not kept")
	}
	for _, c := range []Consumer{{Ordered: true, Partitions: 8, Retry: RetryRequeue}, {}} {
		if c.withDefaults().Lane != nil {
			t.Errorf("a consumer of %d partitions, retry %d, has a lane by default", c.Partitions, c.Retry)
		}
	}
}

// TestSharedWorkers: sessions that share workers run no more handlers than there are workers, and a free worker goes to
// the one that waits for longest.
func TestSharedWorkers(t *testing.T) {
	woken := 0
	w := newWorkers(1, func() { woken++ })
	w.shared = true
	a, b, c := &delivery{}, &delivery{}, &delivery{}
	if !w.enter(a) || !a.grip.worker || !w.enter(b) || b.grip.worker {
		t.Fatal("the first delivery has the worker, the second goes on without")
	}
	turns := make(chan *delivery)
	for _, d := range []*delivery{b, c} {
		go func() { w.wait(t.Context(), d); turns <- d }()
		for waits := false; !waits; {
			w.mu.Lock()
			waits = len(w.ready) > 0 && w.ready[len(w.ready)-1] == d
			w.mu.Unlock()
		}
	}
	if next := w.leave(a); next != nil {
		t.Error("leave returned a delivery that has a goroutine of its own")
	}
	if d := <-turns; d != b {
		t.Error("the one that waited for longest did not get the worker")
	}
	w.leave(b)
	if d := <-turns; d != c || woken > 0 {
		t.Errorf("the last one did not get the worker, or %d were woken for nothing", woken)
	}
	if w.leave(c); woken != 1 || !w.idling() {
		t.Errorf("woken %d times, want once, when nothing is to do", woken)
	}
}

// TestAPartitionIsLeftWithoutAWorker: a handler of another partition has the only worker. A session that ends does not
// wait for it, so the next process gets the partition at once.
func TestAPartitionIsLeftWithoutAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Observer = nil
		s := b.session(Consumer{Handler: ok, DrainTimeout: time.Minute})
		s.workers = newWorkers(1, func() {})
		s.workers.shared = true
		other := &delivery{}
		s.workers.enter(other)
		deliveries := make(chan amqp.Delivery, 1)
		deliveries <- b.delivery(false)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		var calls []string
		began := time.Now()
		err := s.serve(ctx, &link{channel: quietWire{&calls}, deliveries: deliveries})
		if took := time.Since(began); err != nil || took > 2*time.Second || !slices.Contains(calls, "close") {
			t.Errorf("%v after %v, calls %q; want a close after a second", err, took, calls)
		}
		if len(s.workers.ready) > 0 {
			t.Error("a delivery that was left still waits for the worker")
		}
		s.workers.leave(other)
	})
}

// TestUndecodableInAPartition: an undecodable message ends all sessions on the connection, whatever their partition.
// From the third connection on, only the session on its partition meets it. So no message of another partition returns.
func TestUndecodableInAPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept rooms
		defer func() { kept.close() }()
		var mu sync.Mutex
		begun, careful := map[string]int{}, false
		for range 8 {
			s := newSession(partitioned(func(c *Consumer) { c.Partitions = 64 }).withDefaults(), "/", kept)
			if kept = s.rooms; careful {
				s.beCareful()
			}
			room := find[*partitionRoom](s.rooms)
			room.serve = func(ctx context.Context, _ *amqp.Connection, of *session) (bool, error) {
				mu.Lock()
				begun[of.source]++
				mu.Unlock()
				if of.source == "orders.50" {
					time.Sleep(20 * time.Millisecond)
					return false, of.lost(errLost, lostTo(amqp.ErrSyntax))
				}
				for of.arrived.received = 1; ctx.Err() == nil; time.Sleep(time.Second) {
					if of.arrived.passed() {
						return false, errPassed
					}
				}
				return false, nil
			}
			err := room.around(t.Context(), &amqp.Connection{}, nil)
			if careful = decideCareful(careful, err); !strings.Contains(err.Error(), "partition orders.50") {
				t.Error(err)
			}
		}
		for source, n := range begun { // the first connection has all sessions, and the second finds the partition
			if source != "orders.50" && n > 2 || source == "orders.50" && n != 8 {
				t.Errorf("%d of 8 connections had a session on %s", n, source)
			}
		}
	})
}

// TestDeadLettersOfALostPartition are held as Run holds those after a lost connection: the node of the partition may
// have just started, and the broker drops dead letters then.
func TestDeadLettersOfALostPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := find[*partitionRoom](newSession(partitioned(func(*Consumer) {}).withDefaults(), "/", nil).rooms)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var held []time.Duration
		room.serve = func(_ context.Context, _ *amqp.Connection, s *session) (bool, error) {
			held = append(held, time.Until(s.deadLettersFrom).Round(time.Second))
			switch len(held) {
			case 1: // it consumes until it is lost
				s.link = &link{}
			case 3:
				stop()
			}
			return false, errCancelled
		}
		if err := room.keep(t.Context(), ctx, &amqp.Connection{}, 0); err != nil {
			t.Error(err)
		}
		if want := []time.Duration{0, electing, starting}; !slices.Equal(held, want) {
			t.Errorf("the sessions hold dead letters for %v, want %v", held, want)
		}
	})
}

// leftStore notes whether the process said in its last read of the deal that it has left, and how often it did.
type leftStore struct {
	*counter.Memory
	mu   sync.Mutex
	left bool
	said int
}

func (s *leftStore) Deal(ctx context.Context, vhost, queue string, r rules.DealRead) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left = r.Left; r.Left {
		s.said++
	}
	return s.Memory.Deal(ctx, vhost, queue, r)
}

// TestAStopBetweenTwoConnectionsLeavesTheDeal: the others need not wait until the lease of the process ends.
func TestAStopBetweenTwoConnectionsLeavesTheDeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &leftStore{Memory: counter.NewMemory(nil)}
		var kept rooms
		for stops := range 2 { // first the connection is lost, then a stop ends the session
			c := partitioned(func(c *Consumer) { c.Counter = store })
			kept = newSession(c.withDefaults(), "/", kept).rooms
			room := find[*partitionRoom](kept)
			ctx, stop := context.WithCancel(t.Context())
			room.serve = func(ctx context.Context, _ *amqp.Connection, of *session) (bool, error) {
				if stops == 0 {
					return false, errPassed
				}
				stop()
				return false, nil
			}
			_ = room.around(ctx, &amqp.Connection{}, nil)
			stop()
			if stops == 0 {
				if store.left {
					t.Error("it left the deal with the connection")
				}
				room.close()
			}
			if !store.left || store.said != stops+1 {
				t.Errorf("it has left the deal: %t, and said so %d times", store.left, store.said)
			}
		}
		if kept.close(); store.said != 2 {
			t.Errorf("it said %d times that it left, want 2", store.said)
		}
	})
}

// noDeal is a store that deals no partition.
type noDeal struct{ *counter.Memory }

func (noDeal) Deal(context.Context, string, string, rules.DealRead) ([]int, error) { return nil, nil }

// TestAnIdleProcessIsReady: a process without a partition is ready, until its connection ends.
func TestAnIdleProcessIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []bool
		c := partitioned(func(c *Consumer) {
			c.Counter, c.Consuming = noDeal{counter.NewMemory(nil)}, func(yes bool) { told = append(told, yes) }
		})
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		need(t, find[*partitionRoom](newSession(c.withDefaults(), "/", nil).rooms).around(ctx, &amqp.Connection{}, nil))
		if !slices.Equal(told, []bool{true, false}) {
			t.Errorf("Consuming was called with %v, want true and false", told)
		}
	})
}

func TestPartitionsAreValidated(t *testing.T) {
	wantValid(t, Consumer{Ordered: true, Partitions: 8, Concurrency: 16},
		Consumer{Ordered: true, Partitions: 8, Retry: RetryRequeue})
	wantRefused(t, map[string]Consumer{
		"Partitions 257": {Ordered: true, Partitions: 257},
		"Partitions 1":   {Ordered: true, Partitions: 1},
		"Ordered false":  {Partitions: 8},
		"Prefetch 2":     {Ordered: true, Partitions: 8, Retry: RetryRequeue, Prefetch: 2},
	})
}
