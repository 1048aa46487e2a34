package integration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/ops"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// shared is a partitioned queue and the messages that its handler saw.
type shared struct {
	t     *testing.T
	queue string
	store *counter.Counter
	n     int

	prefix string // of the store

	mu      sync.Mutex
	handled []string                  // "key body", in the order in which attempts began
	fails   func(key, b string) error // the result of an attempt
}

func newShared(t *testing.T, n int) *shared {
	t.Helper()
	s := &shared{t: t, n: n, queue: uniqueName(t, "shared"), fails: succeed}
	declarePartitions(t, topology.Spec{Queue: s.queue, Partitions: n})
	s.prefix = uniqueName(t, "test")
	s.store = ofPrefix(t, s.prefix)
	return s
}

// consume runs a consumer until the test ends, or stop is called.
func (s *shared) consume(change func(*consumer.Consumer)) (stop func()) {
	s.t.Helper()
	c := consumer.Consumer{
		Queue: s.queue, Partitions: s.n, Ordered: true, Counter: s.store, Concurrency: 4, MaxRetries: 2,
		Check: consumer.Check{Management: managementURL(s.t)}, Backoff: func(int) time.Duration { return time.Millisecond },
		Handler: func(_ context.Context, d amqp.Delivery) error {
			s.mu.Lock()
			s.handled = append(s.handled, d.RoutingKey+" "+string(d.Body))
			fails := s.fails
			s.mu.Unlock()
			return fails(d.RoutingKey, string(d.Body))
		},
	}
	change(&c)
	return runConsumer(s.t, c, dialer(s.t))
}

// publish publishes messages "key body" with the text as their id.
func (s *shared) publish(texts ...string) {
	s.t.Helper()
	var all []publisher.Message
	for _, text := range texts {
		key, body, _ := strings.Cut(text, " ")
		m, err := publisher.Partitions{Queue: s.queue, N: s.n}.Message(key, amqp.Publishing{
			MessageId: text[:min(len(text), 50)], Body: []byte(body)})
		need(s.t, err)
		all = append(all, m)
	}
	publishAll(s.t, all...)
}

func (s *shared) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.handled)
}

func (s *shared) eventually(what string, cond func() bool) {
	s.t.Helper()
	eventually(s.t, what, cond)
}

func (s *shared) depth() (n int) {
	for i := range s.n {
		n += queueDepth(s.t, broker.Partition(s.queue, i))
	}
	return n
}

// TestPartitionedQueueIsOneQueue: pauses, skips, limits, counts and dead letters are those of the queue, whatever the
// partition.
func TestPartitionedQueueIsOneQueue(t *testing.T) {
	t.Parallel()
	s := newShared(t, 4)
	admin := s.store.Admin()
	s.fails = func(_, body string) error {
		if body == "bad" {
			return errors.New("always")
		}
		return nil
	}
	s.consume(noChange)
	s.publish("a 1", "b 1", "c bad", "c 2", "a 2")
	s.eventually("five messages, one of them three times", func() bool { return len(s.seen()) == 7 })
	s.eventually("its tombstone", func() bool {
		d, err := admin.State(t.Context(), "/", s.queue)
		return err == nil && d.Tombstones.Count == 1
	})
	seen := s.seen()
	if a, b := slices.Index(seen, "c bad"), slices.Index(seen, "c 2"); a < 0 || b < a+3 {
		t.Errorf("c 2 began before its predecessor was dead-lettered: %q", seen)
	}

	retries := 0
	limit := counter.Override{MaxRetries: &retries, Note: counter.Note{Why: "test"}}
	need(t, admin.SetLimit(t.Context(), "/", s.queue, limit))
	s.publish("d bad")
	s.eventually("one attempt only", func() bool {
		d, err := admin.State(t.Context(), "/", s.queue)
		return err == nil && d.Tombstones.Count == 2
	})
	if n := len(s.seen()); n != 8 {
		t.Errorf("%d attempts after a limit of none for the queue, want 8: %q", n, s.seen())
	}

	need(t, admin.Pause(t.Context(), "/", s.queue, counter.Note{Why: "test"}))
	s.eventually("no consumer on any partition", func() bool {
		for i := range s.n {
			if consumers(t, broker.Partition(s.queue, i)) > 0 {
				return false
			}
		}
		return true
	})
	s.publish("e 1")
	time.Sleep(200 * time.Millisecond)
	if n := len(s.seen()); n != 8 {
		t.Error("an attempt began during a pause")
	}
	need(t, admin.Resume(t.Context(), "/", s.queue, counter.Note{}))
	s.eventually("the message of the pause", func() bool { return len(s.seen()) == 9 })
	if now, err := admin.State(t.Context(), "/", s.queue); err != nil || len(now.Consumers) != 1 {
		t.Errorf("processes known to operators: %v, %v, want one", now.Consumers, err)
	}

	s.replay("c bad", "d bad")
}

// deadLetters is the dead-letter queue, as an operator opens it.
func (s *shared) deadLetters() *deadletter.Queue {
	s.t.Helper()
	return openDead(s.t, deadletter.Queue{Name: s.queue + ".dlq", Partitioned: s.queue, Partitions: s.n,
		Records: s.store.Admin()})
}

// lanes returns the blocked lanes, of which there are n.
func (s *shared) lanes(n int) (lanes []deadletter.Lane) {
	s.t.Helper()
	blocked, _, err := ops.Lanes(s.t.Context(), s.store.Admin(), "/", broker.Partitions(s.queue, s.n), math.MaxInt)
	if err != nil || len(blocked) != n {
		s.t.Fatalf("%d blocked lanes, %v, want %d", len(blocked), err, n)
	}
	for _, l := range blocked {
		lanes = append(lanes, deadletter.Lane{Queue: l.Queue, Name: l.Lane, Store: s.store.Admin()})
	}
	return lanes
}

// now has later attempts end so, and forgets the handled messages.
func (s *shared) now(fails func(key, body string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails, s.handled = fails, nil
}

func succeed(string, string) error { return nil }

// replay replays the dead letters with these ids, which succeed then.
func (s *shared) replay(ids ...string) {
	s.t.Helper()
	s.now(succeed)
	s.eventually("the dead letters", func() bool { return queueDepth(s.t, s.queue+".dlq") == len(ids) })
	q := s.deadLetters()
	var found []string
	for m, err := range q.Browse(s.t.Context(), deadletter.Filter{}) {
		need(s.t, err)
		if m.Record == nil || m.Record.Queue != s.queue || m.Kind() != deadletter.KindFailed {
			s.t.Errorf("dead letter %s has the record %+v", m.ID, m.Record)
		}
		found = append(found, m.ID)
	}
	if slices.Sort(found); !slices.Equal(found, ids) {
		s.t.Errorf("dead letters %q, want %q", found, ids)
	}
	need(s.t, errOf(q.Replay(s.t.Context(), deadletter.Replay{})))
	s.eventually("the replayed messages, with their routing keys", func() bool {
		seen := s.seen()
		slices.Sort(seen)
		return slices.Equal(seen, ids)
	})
}

// TestPartitionsHoldLanes: with HoldLanes a dead letter blocks the messages of its routing key, and no others. The
// lanes are those of the partition.
func TestPartitionsHoldLanes(t *testing.T) {
	t.Parallel()
	s := newShared(t, 2)
	s.fails = func(key, body string) error {
		if key == "a" && body == "1" {
			return consumer.Reject(errors.New("bad"))
		}
		return nil
	}
	s.consume(func(c *consumer.Consumer) { c.HoldLanes = true })
	s.publish("a 1", "a 2", "b 1", "c 1", "a 3", "b 2")
	s.eventually("all others handled, and three dead letters", func() bool {
		return len(s.seen()) == 4 && queueDepth(t, s.queue+".dlq") == 3
	})
	s.now(succeed)
	blocked := s.inOneRow("")
	if again := s.inOneRow(managementURL(t)); again != blocked {
		t.Errorf("partition %q has the blocked lane by the management API, and %q by AMQP", again, blocked)
	}
	q, lane := s.deadLetters(), deadletter.Lane{Queue: blocked, Name: "a", Store: s.store.Admin()}
	need(t, errOf(q.ReplayLane(t.Context(), lane)))
	s.publish("a 4")
	s.eventually("the lane in its order", func() bool {
		return slices.Equal(s.seen(), []string{"a 1", "a 2", "a 3", "a 4"})
	})
}

// TestReplayLanes: one read of the dead-letter queue serves a pass of all lanes. Each lane has its order. A lane that
// fails again stops none of the others.
func TestReplayLanes(t *testing.T) {
	t.Parallel()
	replayLanes(t, manyLanes{keys: 60, each: 3, least: 2, most: 8})
}

// TestReplayManyLanes replays lanes that have more dead letters together than one read serves.
func TestReplayManyLanes(t *testing.T) {
	servertest.Long(t)
	replayLanes(t, manyLanes{keys: 600, each: 2, least: 3, most: 16})
}

// manyLanes are lanes with equal numbers of dead letters. Their replay reads the dead-letter queue least to most times.
type manyLanes struct{ keys, each, least, most int }

func replayLanes(t *testing.T, b manyLanes) {
	t.Helper()
	s := newShared(t, 4)
	s.fails = func(string, string) error { return consumer.Reject(errors.New("bad")) }
	s.consume(func(c *consumer.Consumer) { c.HoldLanes = true })
	var all []string
	for i := range b.keys * b.each {
		all = append(all, fmt.Sprintf("key-%d %d", i%b.keys, i/b.keys))
	}
	for part := range slices.Chunk(all, b.keys) {
		s.publish(part...)
	}
	s.eventually("every message dead", func() bool { return queueDepth(t, s.queue+".dlq") == len(all) })
	s.now(func(key, _ string) error {
		if key == "key-1" {
			return consumer.Reject(errors.New("still bad"))
		}
		return nil
	})
	q := s.deadLetters()
	reads := 0
	q.Progress = func(p deadletter.Progress) {
		if p.Doing == "reading" && p.Done == 1 {
			reads++
		}
	}
	ended := map[string]bool{}
	err := q.ReplayLanes(t.Context(), s.lanes(b.keys), func(l deadletter.Lane, r deadletter.LaneResult, err error) error {
		fails := l.Name == "key-1"
		if ended[l.Name] || r.Released == fails || errors.Is(err, deadletter.ErrLaneFailed) != fails ||
			!fails && (err != nil || r.Replayed != b.each) {
			t.Errorf("lane %s, ended before: %v: %+v, %v", l.Name, ended[l.Name], r, err)
		}
		ended[l.Name] = true
		return nil
	})
	if err != nil || len(ended) != b.keys {
		t.Errorf("%d of %d lanes ended, %v", len(ended), b.keys, err)
	}
	next := map[string]int{}
	for _, text := range s.seen() {
		key, body, _ := strings.Cut(text, " ")
		if n, _ := strconv.Atoi(body); n != next[key] {
			t.Errorf("lane %s: message %d, want %d", key, n, next[key])
		}
		next[key]++
	}
	if reads < b.least || reads > b.most {
		t.Errorf("the dead-letter queue was read %d times, want %d to %d", reads, b.least, b.most)
	}
}

// TestReplayLanesEnds: after an error of its caller it goes on with no lane, and tells of those that it changed.
func TestReplayLanesEnds(t *testing.T) {
	t.Parallel()
	s := newShared(t, 2)
	s.fails = func(string, string) error { return consumer.Reject(errors.New("bad")) }
	s.consume(func(c *consumer.Consumer) { c.HoldLanes = true })
	s.publish("a 1", "b 1", "c 1")
	s.eventually("three dead letters", func() bool { return queueDepth(t, s.queue+".dlq") == 3 })
	enough := errors.New("enough")
	var told []error
	err := s.deadLetters().ReplayLanes(t.Context(), s.lanes(3), func(_ deadletter.Lane, r deadletter.LaneResult,
		err error) error {
		if told = append(told, err); r.Replayed != 1 {
			t.Errorf("a lane that was changed: %+v", r)
		}
		return enough
	})
	//nolint:errorlint // it is returned as it is
	if err != enough || len(told) != 3 || !errors.Is(told[0], deadletter.ErrLaneFailed) || told[1] != enough {
		t.Errorf("%v, told %v", err, told)
	}
}

// inOneRow returns the partition with a blocked lane, by an overview of all queues, or by AMQP of this one.
func (s *shared) inOneRow(management string) (blocked string) {
	s.t.Helper()
	q := ops.Collector{VHost: "/", Store: s.store.Admin(), Dial: dialer(s.t), API: inspect.Need{Management: management}}
	defer q.Close()
	if management == "" {
		q.Names = []string{s.queue}
	}
	s.eventually("one row with two partitions, two consumers and a blocked lane", func() bool {
		o, err := q.All(s.t.Context())
		need(s.t, err)
		if failed := o.Failed(); failed != nil { // a machine that stalls keeps the management API from answering in time
			s.t.Log(failed)
			return false
		}
		o.Queues = slices.DeleteFunc(o.Queues, func(one ops.Status) bool { return !strings.HasPrefix(one.Queue, s.queue) })
		if len(o.Queues) != 1 || o.Queues[0].Queue != s.queue {
			s.t.Fatalf("rows: %+v", o.Queues)
		}
		row := o.Queues[0]
		for _, p := range row.Partitions {
			if p.BlockedLanes == 1 {
				blocked = p.Queue
			}
		}
		return len(row.Partitions) == s.n && *row.Consumers == s.n && row.BlockedLanes == 1 && row.Dead.Blocked == 2 &&
			row.Dead.Count == 1 && blocked != ""
	})
	return blocked
}

// TestPartitionsBreaker: the service that the handlers need is away. One breaker holds the messages of all partitions,
// few are dead-lettered, and the others are handled in their order once it is back.
func TestPartitionsBreaker(t *testing.T) {
	t.Parallel()
	const keys, each, breaker = 10, 4, 4
	s := newShared(t, 4)
	s.fails = func(string, string) error { return errAway }
	s.consume(func(c *consumer.Consumer) { c.Breaker = breaker })
	var all []string
	for i := range keys * each {
		all = append(all, fmt.Sprintf("key-%d %d", i%keys, i/keys))
	}
	s.publish(all...)
	awaitOpen(t, s.store, s.queue)
	s.now(succeed)
	dead := func() int { return queueDepth(t, s.queue+".dlq") }
	s.eventually("every message handled or dead-lettered", func() bool { return len(s.seen())+dead() >= len(all) })
	if n := dead(); n >= breaker {
		t.Errorf("%d dead letters of an outage, want fewer than the breaker of %d", n, breaker)
	}
	next := map[string]string{}
	for _, text := range s.seen() {
		key, body, _ := strings.Cut(text, " ")
		if body <= next[key] {
			t.Errorf("%s after %s: %q", text, next[key], s.seen())
		}
		next[key] = body
	}
}

// TestPartitionsComeBackWithABreaker: a process joins and leaves. The other one consumes all partitions again.
func TestPartitionsComeBackWithABreaker(t *testing.T) {
	t.Parallel()
	s, n := newShared(t, 4), 0
	publish := func() bool {
		s.publish(fmt.Sprintf("key-%d %d", n%12, n))
		n++
		return true
	}
	breaker := func(c *consumer.Consumer) { c.Breaker = 8 }
	s.consume(breaker)
	s.eventually("a process consumes", func() bool { return publish() && len(s.seen()) > 0 })
	var joined atomic.Bool
	leave := s.consume(func(c *consumer.Consumer) {
		handle := c.Handler
		breaker(c)
		c.Handler = func(ctx context.Context, d amqp.Delivery) error { joined.Store(true); return handle(ctx, d) }
	})
	s.eventually("a partition goes to the other process", func() bool { return publish() && joined.Load() })
	leave()
	for range 12 {
		publish()
	}
	s.eventually("the messages of every partition", func() bool { return len(s.seen()) == n })
}

// TestPartitionConsumersHaveNoPriority: RabbitMQ 4.3 may stop a queue whose consumers have some.
func TestPartitionConsumersHaveNoPriority(t *testing.T) {
	t.Parallel()
	s := newShared(t, 2)
	s.consume(noChange)
	api, err := broker.NewAPI(managementURL(t), nil)
	need(t, err)
	s.eventually("a consumer on each partition", func() bool {
		for i := range s.n {
			state, err := api.State(t.Context(), "/", broker.Partition(s.queue, i))
			if err != nil || len(state.Consumers) == 0 {
				return false
			}
			for _, c := range state.Consumers {
				if c.Priority() != 0 {
					t.Errorf("a consumer of %s has an x-priority", broker.Partition(s.queue, i))
				}
			}
		}
		return true
	})
}

// TestPartitionsOfOneKey: messages of one key are in one partition, also after the partitions were deleted and declared
// again.
func TestPartitionsOfOneKey(t *testing.T) {
	t.Parallel()
	s := newShared(t, 4)
	place := func() map[string]string {
		var texts []string
		for i := range 200 {
			texts = append(texts, fmt.Sprintf("key-%d 1", i%100))
		}
		s.publish(texts...)
		at := map[string]string{}
		conn := dialBroker(t)
		for i := range s.n {
			name := broker.Partition(s.queue, i)
			waiting := queueDepth(t, name)
			ch, all := subscribe(t, conn, name, 0, nil)
			for range waiting {
				d := <-all
				if was, again := at[d.RoutingKey]; again && was != name {
					t.Errorf("%s is in %s and %s", d.RoutingKey, was, name)
				}
				at[d.RoutingKey] = name
				_ = d.Ack(false)
			}
			_ = ch.Close()
		}
		return at
	}
	before := place()
	if len(before) != 100 {
		t.Fatalf("%d keys, want 100", len(before))
	}
	b := newTopo(t)
	b.remove(broker.Partition(s.queue, 2))
	b.remove(broker.Partition(s.queue, 0))
	declarePartitions(t, topology.Spec{Queue: s.queue, Partitions: s.n})
	for key, at := range place() {
		if at != before[key] {
			t.Errorf("%s was in %s, and is in %s since queues were deleted and declared again", key, before[key], at)
		}
	}

	p, err := publisher.New(dialer(t), nil)
	need(t, err)
	defer p.Close()
	m, _ := publisher.Partitions{Queue: s.queue, N: 3}.Message("key-1", amqp.Publishing{})
	if _, err = p.Publish(t.Context(), m.Exchange, m.Key, m.Publishing); broker.VersionOf(b.conn).HasModulusHash() {
		if err != nil {
			t.Errorf("the broker chooses the partition, so another number is no error: %v", err)
		}
	} else if !errors.Is(err, publisher.ErrUnroutable) {
		t.Errorf("a message for another number of partitions: %v, want it returned", err)
	}
}

// TestPartitionsDoctor: a defect of a queue's partitions is found, and its consumers are refused.
func TestPartitionsDoctor(t *testing.T) {
	t.Parallel()
	s := newShared(t, 4)
	b := newTopo(t)
	conn := b.conn
	needed := topology.Need{Queue: s.queue, Partitions: s.n, Ordered: true, Management: managementURL(t)}
	codes := func(needed topology.Need) (codes []string) {
		t.Helper()
		err := topology.Check(t.Context(), conn, needed)
		var refused *topology.RefusedError
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if refused != nil {
			for _, f := range refused.Findings {
				codes = append(codes, f.Code)
			}
		}
		slices.Sort(codes)
		return slices.Compact(codes)
	}
	want := func(when string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", when, got, want)
		}
	}
	want("as declared", codes(needed))
	for _, n := range []int{0, s.n} {
		one := topology.Check(t.Context(), conn, topology.Need{Queue: broker.Partition(s.queue, 3), Partitions: n,
			Management: needed.Management})
		if !errors.Is(one, topology.ErrRefused) || !strings.Contains(one.Error(),
			"(strikes consume --ordered --partitions 4 "+s.queue+")") {
			t.Errorf("a consumer of one partition, with %d partitions: %v", n, one)
		}
	}
	other := needed
	for _, other.Partitions = range []int{3, 5, 9} {
		want("another number", codes(other), "partition-count")
	}

	deleteLater(t, s.queue+".plain")
	need(t, topology.Declare(t.Context(), conn, topology.Spec{Queue: s.queue + ".plain"}))
	other.Queue = s.queue + ".plain"
	want("without partitions", codes(other), "not-partitioned")

	chooser := broker.HashExchange(s.queue, s.n)
	b.must(func(ch *amqp.Channel) error {
		return ch.QueueBind(broker.Partition(s.queue, 1), "again", chooser, false, amqp.Table{"x-match": "all", "n": "2"})
	})
	want("bound twice", codes(needed), "partition-bindings")
	var consuming []*amqp.Channel
	for _, name := range broker.Partitions(s.queue, s.n-1) {
		ch, _ := subscribe(t, conn, name, 1, nil)
		consuming = append(consuming, ch)
	}
	found := []string{}
	up := doctor.Checkup{Conn: conn, Need: inspect.Need{Management: managementURL(t)}, Named: true, Store: s.store.Admin()}
	if err := up.Queues(t.Context(), []string{s.queue}, func(r doctor.Report) error {
		for _, f := range r.Findings {
			found = append(found, f.Code+" "+f.Seen)
		}
		return r.Err
	}); err != nil ||
		!slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, "partition-bindings ") }) ||
		!slices.Contains(found, "partition-idle no active consumer on "+broker.Partition(s.queue, s.n-1)+", while other "+
			"partitions are consumed") {
		t.Errorf("the doctor finds %q, %v", found, err)
	}
	for _, ch := range consuming {
		_ = ch.Close()
	}
	b.must(func(ch *amqp.Channel) error {
		return ch.QueueUnbind(broker.Partition(s.queue, 1), "again", chooser, amqp.Table{"x-match": "all", "n": "2"})
	})
	b.remove(broker.Partition(s.queue, 2))
	want("one deleted", codes(needed), "partition-missing")
	b.queue(broker.Partition(s.queue, 2), amqp.Table{"x-queue-type": "quorum"})
	if got := codes(needed); !slices.Contains(got, "not-single-active") ||
		!slices.Contains(got, "no-dead-letter-exchange") {
		t.Errorf("one declared by hand: found %q", got)
	}
	if err := topology.Declare(t.Context(), conn, topology.Spec{Queue: s.queue, Partitions: s.n}); err == nil ||
		!strings.Contains(err.Error(), "it exists with x-") {
		t.Errorf("declaring over it: %v", err)
	}
	another := topology.Spec{Queue: s.queue, Partitions: 3}
	for i := range s.n { // one after the other is deleted
		if err := topology.Declare(t.Context(), conn, another); err == nil ||
			!strings.Contains(err.Error(), "another number of partitions") {
			t.Errorf("declaring another number while %d of %d partitions exist: %v", s.n-i, s.n, err)
		}
		b.remove(broker.Partition(s.queue, i))
	}
	declarePartitions(t, another)
	needed.Partitions = 3
	want("declared with another number, once no partition was left", codes(needed))
}

func noChange(*consumer.Consumer) {}
