package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// TestRepartition: the number of partitions changes only while they are empty and nothing consumes. Then each message
// reaches a partition of the new number, also a dead letter of a former one.
func TestRepartition(t *testing.T) {
	t.Parallel()
	s := newShared(t, 4)
	s.fails = func(_, body string) error {
		if body == "bad" {
			return consumer.Reject(errors.New("bad"))
		}
		return nil
	}
	conn := dialBroker(t)
	refused := func(n int, why string) {
		t.Helper()
		if err := s.repartition(conn, n); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("a change to %d partitions: %v, want %q", n, err, why)
		}
		s.sound()
	}
	s.publish("a bad")
	refused(6, "has 1 message and 0 consumers")
	stop := s.consume(noChange)
	s.eventually("the dead letter", func() bool { return queueDepth(t, s.queue+".dlq") == 1 })
	refused(6, "and 1 consumer")
	stop()
	classic := topology.Spec{Queue: s.queue, Partitions: 6, Type: topology.Classic}
	err := topology.Repartition(t.Context(), conn, classic)
	if err == nil || !strings.Contains(err.Error(), "it exists with x-") {
		t.Errorf("a change to classic partitions: %v", err)
	}
	s.sound()

	for _, n := range []int{7, 3, 3} {
		need(t, s.repartition(conn, n))
		s.n = n
		s.sound()
		if found, err := broker.PartitionsOf(t.Context(), conn, s.queue); found != n || err != nil {
			t.Errorf("%d partitions, %v, want %d", found, err, n)
		}
	}
	var texts []string
	for i := range 60 {
		texts = append(texts, fmt.Sprintf("key-%d 1", i))
	}
	s.publish(texts...)
	if n := s.depth(); n != len(texts) {
		t.Errorf("%d of %d messages are in the %d partitions", n, len(texts), s.n)
	}
	r, err := s.deadLetters().Replay(t.Context(), deadletter.Replay{})
	if err != nil || r.Done != 1 || s.depth() != len(texts)+1 {
		t.Errorf("the replay of a dead letter of four partitions: %+v, %v, %d messages", r, err, s.depth())
	}
}

// TestRepartitionWithoutAPartition: one that is missing, as after a change that was cut off, stops no change.
func TestRepartitionWithoutAPartition(t *testing.T) {
	t.Parallel()
	s := newShared(t, 5)
	b := newTopo(t)
	b.remove(broker.Partition(s.queue, 4))
	need(t, s.repartition(b.conn, 2))
	if found, q, err := broker.FindQueue(t.Context(), b.conn, broker.Partition(s.queue, 2)); found != broker.No {
		t.Errorf("partition %q is left: %v", q.Name, err)
	}
}

// TestRepartitionCutOff: where a change or a removal was cut off with a message in a partition, the same number may be
// declared, and then the message is handled.
func TestRepartitionCutOff(t *testing.T) {
	t.Parallel()
	s := newShared(t, 3)
	s.publish("a 1")
	b := newTopo(t)
	for _, exchange := range []string{broker.HashExchange(s.queue, 3), s.queue} { // the second time both are missing
		b.must(func(ch *amqp.Channel) error {
			return errors.Join(ch.ExchangeDelete(exchange, false, false),
				ch.ExchangeDelete(broker.HashExchange(s.queue, 3), false, false))
		})
		for _, n := range []int{2, 4} {
			spec := topology.Spec{Queue: s.queue, Partitions: n}
			for _, err := range []error{topology.Declare(t.Context(), b.conn, spec),
				topology.Repartition(t.Context(), b.conn, spec)} {
				if !errors.Is(err, topology.ErrRefused) {
					t.Errorf("%d partitions without exchange %s: %v", n, exchange, err)
				}
			}
		}
		b.declare(topology.Spec{Queue: s.queue, Partitions: 3})
		s.sound()
	}
	if n := s.depth(); n != 1 {
		t.Errorf("%d messages are in the partitions, want 1", n)
	}
}

// TestRepartitionInterrupted: an interrupt in the middle of a change does not leave the queue without an exchange that
// chooses.
func TestRepartitionInterrupted(t *testing.T) {
	t.Parallel()
	s := newShared(t, 100)
	b := newTopo(t)
	for _, object := range append(broker.Partitions(s.queue, 120), broker.HashExchange(s.queue, 120)) {
		b.named(object)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	done := make(chan error, 1)
	go func() {
		done <- topology.Repartition(ctx, dialBroker(t), topology.Spec{Queue: s.queue, Partitions: 120})
	}()
	s.eventually("the exchange is deleted", func() bool {
		found, _ := broker.FindExchange(t.Context(), b.conn, broker.HashExchange(s.queue, 100))
		return found == broker.No
	})
	interrupt()
	err := <-done
	if s.n, _ = broker.PartitionsOf(t.Context(), b.conn, s.queue); s.n != 120 || err != nil {
		t.Errorf("an interrupted change ends with %d partitions, %v", s.n, err)
	}
	s.sound()
	s.publish("a 1")
}

// TestDeclareBesideAMissingPartition: partitions of which one is missing are still those of a queue. Neither a queue of
// their name is declared, nor the missing one as a queue of its own.
func TestDeclareBesideAMissingPartition(t *testing.T) {
	t.Parallel()
	s := newShared(t, 4)
	b := newTopo(t)
	for _, i := range []int{3, 0} {
		missing := broker.Partition(s.queue, i)
		b.remove(missing)
		for _, spec := range []topology.Spec{{Queue: s.queue}, {Queue: missing}, {Queue: missing, Partitions: 2}} {
			deleteLater(t, spec.Queue+".dlq", spec.Queue+".dlx")
			err := topology.Declare(t.Context(), b.conn, spec)
			if !errors.Is(err, topology.ErrRefused) || !strings.Contains(err.Error(), "4 partitions") ||
				!strings.Contains(err.Error(), "--partitions 4") {
				t.Errorf("without partition %d, declare %+v: %v", i, spec, err)
			}
			if found, _, err := broker.FindQueue(t.Context(), b.conn, spec.Queue); found != broker.No {
				t.Errorf("without partition %d, %s was declared: %v", i, spec.Queue, err)
			}
		}
	}
	b.declare(topology.Spec{Queue: s.queue, Partitions: 4})
	s.sound()
}

// TestPlainQueueBesidePartitions: a queue of the name of a partitioned one is refused, as its messages would be in one
// or the other. A queue orders.0 of its own, beside an exchange orders, makes no partitions of orders.
func TestPlainQueueBesidePartitions(t *testing.T) {
	t.Parallel()
	s := newShared(t, 3)
	conn := dialBroker(t)
	err := topology.Declare(t.Context(), conn, topology.Spec{Queue: s.queue})
	if !errors.Is(err, topology.ErrRefused) || !strings.Contains(err.Error(), "has 3 partitions") {
		t.Errorf("a plain queue of that name: %v", err)
	}
	if found, _, err := broker.FindQueue(t.Context(), conn, s.queue); found != broker.No {
		t.Errorf("it was declared: %v", err)
	}
	s.sound()

	own := uniqueName(t, "own")
	need(t, broker.OnChannel(t.Context(), conn, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(own, amqp.ExchangeFanout, true, false, false, false, nil)
	}))
	for _, queue := range []string{broker.Partition(own, 0), own} {
		deleteLater(t, queue, queue+".dlq")
		need(t, topology.Declare(t.Context(), conn, topology.Spec{Queue: queue}))
	}
	theirs := uniqueName(t, "theirs")
	deleteLater(t, theirs)
	need(t, broker.OnChannel(t.Context(), conn, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(theirs, amqp.ExchangeTopic, true, false, false, false, nil)
	}))
	if err := topology.Declare(t.Context(), conn, topology.Spec{Queue: theirs, Partitions: 3}); err == nil {
		t.Error("partitions behind a topic exchange are declared")
	}
	if found, _, err := broker.FindQueue(t.Context(), conn, broker.Partition(theirs, 0)); found != broker.No {
		t.Errorf("a partition of it was declared: %v", err)
	}
	if n, err := broker.PartitionsOf(t.Context(), conn, own); n != 0 || err != nil {
		t.Errorf("queue %s has %d partitions, %v", own, n, err)
	}
}

// TestRepartitionTogether: of several changes at the same time each sees the queue before or after another one, so
// that a message is in one partition in the end.
func TestRepartitionTogether(t *testing.T) {
	t.Parallel()
	s := newShared(t, 4)
	numbers := []int{2, 3, 5, 6}
	shared := dialBroker(t)
	for round := range 4 {
		var all sync.WaitGroup
		for _, n := range numbers {
			conn := shared
			if round%2 == 0 {
				conn = dialBroker(t)
			}
			all.Go(func() {
				if err := s.repartition(conn, n); err != nil {
					t.Errorf("to %d partitions: %v", n, err)
				}
			})
		}
		all.Wait()
		var err error
		s.n, err = broker.PartitionsOf(t.Context(), shared, s.queue)
		need(t, err)
		s.sound()
		before := s.depth()
		var texts []string
		for i := range 40 {
			texts = append(texts, fmt.Sprintf("key-%d 1", i))
		}
		s.publish(texts...)
		if n := s.depth() - before; n != len(texts) {
			t.Errorf("%d messages of %d are in the %d partitions", n, len(texts), s.n)
		}
		for _, name := range broker.Partitions(s.queue, s.n) {
			purged(t, name)
		}
	}
}

// TestPartitionsLockThatCannotBeRead: a user who may not consume the lock is told so. The lock does not stay with its
// connection: others can change the partitions.
func TestPartitionsLockThatCannotBeRead(t *testing.T) {
	t.Parallel()
	admin := newTopo(t)
	limited := admin.as(".*", ".*", `^(?!.*\.strikes-lock$)`)
	spec := topology.Spec{Queue: uniqueName(t, "shared"), Partitions: 2}
	err := topology.Declare(t.Context(), limited.conn, spec)
	if err == nil || !strings.Contains(err.Error(), "lock") ||
		!strings.Contains(err.Error(), "able to configure and read") {
		t.Errorf("without the permission to read the lock: %v", err)
	}
	declarePartitions(t, spec)
}

// TestPartitionsLockOfALongName: a broker that cannot send its refusal of the lock ends the connection. That is not
// taken for an internal error of the broker.
func TestPartitionsLockOfALongName(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t, strings.Repeat("é", 80))
	conn, wait := dialBroker(t), time.Minute
	ch, err := conn.Channel()
	need(t, err)
	need(t, errOf(ch.QueueDeclare(queue+".strikes-lock", false, false, true, false, nil)))
	sends := broker.VersionOf(conn).Before(4, 0) // its refusal, so the lock is waited for
	if sends {
		wait = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	err = topology.Declare(ctx, dialBroker(t), topology.Spec{Queue: queue, Partitions: 2})
	if waited := errors.Is(err, context.DeadlineExceeded); waited != sends || !sends &&
		(!errors.Is(err, topology.ErrRefused) || !strings.Contains(err.Error(), "another process changes its partitions")) {
		t.Error(err)
	}
}

// repartition changes the number of partitions. DeleteLater deletes those of the new number.
func (s *shared) repartition(conn *amqp.Connection, n int) error {
	deleteLater(s.t, append(broker.Partitions(s.queue, n), broker.HashExchange(s.queue, n))...)
	return topology.Repartition(s.t.Context(), conn, topology.Spec{Queue: s.queue, Partitions: n})
}

// sound checks the topology of the queue.
func (s *shared) sound() {
	s.t.Helper()
	need := topology.Need{Queue: s.queue, Partitions: s.n, Ordered: true, Management: managementURL(s.t)}
	if err := topology.Check(s.t.Context(), dialBroker(s.t), need); err != nil {
		s.t.Error(err)
	}
}

// TestRepartitionWhilePublishing: each message that the broker confirms while the number changes, or while the change
// is refused, is in one partition once.
func TestRepartitionWhilePublishing(t *testing.T) {
	t.Parallel()
	s := newShared(t, 2)
	conn := dialBroker(t)
	p, err := publisher.New(dialer(t), nil)
	need(t, err)
	defer p.Close()
	ctx, stop := context.WithCancel(t.Context())
	var confirmed, returned atomic.Int64
	done := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			m, err := publisher.Partitions{Queue: s.queue, N: 2}.Message(fmt.Sprint("key-", i), amqp.Publishing{})
			if err == nil {
				_, err = p.Publish(t.Context(), m.Exchange, m.Key, m.Publishing)
			}
			switch {
			case err == nil:
				confirmed.Add(1)
			case errors.Is(err, publisher.ErrUnroutable):
				returned.Add(1)
			default:
				done <- err
				return
			}
			if ctx.Err() != nil {
				done <- nil
				return
			}
		}
	}()
	if err := s.repartition(conn, 3); err != nil && !errors.Is(err, topology.ErrRefused) {
		t.Error(err)
	}
	stop()
	need(t, <-done)
	s.n, err = broker.PartitionsOf(t.Context(), conn, s.queue)
	need(t, err)
	s.sound()
	if n := s.depth(); n != int(confirmed.Load()) {
		t.Errorf("%d messages in %d partitions, %d confirmed, %d returned", n, s.n, &confirmed, &returned)
	}
	t.Logf("%d partitions, %d messages confirmed, %d returned", s.n, confirmed.Load(), returned.Load())
}

// TestNoPartition: a queue with the name of the next partition that strikes did not declare is none. It is consumed,
// its dead letters return to it, and a change of the partitions leaves it with its messages.
func TestNoPartition(t *testing.T) {
	t.Parallel()
	s := newShared(t, 3)
	other := broker.Partition(s.queue, 3)
	b := newTopo(t)
	b.queue(other, nil)
	b.publish("", other, "one")
	s.sound()
	b.isNoPartition(other)
	for _, n := range []int{3, 2} {
		need(t, s.repartition(b.conn, n))
		s.n = n
		s.sound()
		if queueDepth(t, other) != 1 {
			t.Fatalf("%s has no message after the change to %d partitions", other, n)
		}
	}
	if left, _, err := broker.FindQueue(t.Context(), b.conn, broker.Partition(s.queue, 2)); left != broker.No {
		t.Errorf("a former partition is left: %v", err)
	}
	purged(t, other)
	need(t, s.repartition(b.conn, 2))
	if left, _, err := broker.FindQueue(t.Context(), b.conn, other); left != broker.Yes {
		t.Errorf("the queue %s, which is empty, was deleted: %v", other, err)
	}
}

// TestNoPartitions: queues with the names of partitions, of no exchange or of one that strikes did not declare, are
// queues like all others.
func TestNoPartitions(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	numbered := b.name()
	for _, name := range broker.Partitions(numbered, 2) {
		b.queue(b.named(name), nil)
		b.isNoPartition(name)
	}
	if n, err := broker.PartitionsOf(t.Context(), b.conn, numbered); n != 0 || err != nil {
		t.Errorf("%s, which does not exist, has %d partitions, %v", numbered, n, err)
	}
	b.exchange(numbered, amqp.ExchangeFanout)
	for _, name := range broker.Partitions(numbered, 2) {
		b.bind(name, "", numbered)
		b.isNoPartition(name)
	}
}

// TestRepartitionSparesAForeignQueue: a queue with the name of a partition, which strikes did not declare, is named
// before anything is declared, and is not deleted.
func TestRepartitionSparesAForeignQueue(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	name := b.name()
	theirs := broker.Partition(name, 5)
	stays := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "nothing was declared") ||
			!strings.Contains(err.Error(), theirs+`": it exists with x-`) {
			t.Errorf("%s: %v", what, err)
		}
		before := queueDepth(t, theirs)
		b.publish("amq.topic", theirs, "one")
		if n := queueDepth(t, theirs); n != before+1 {
			t.Errorf("%s: the queue has %d messages, want %d", what, n, before+1)
		}
	}
	foreign := func() {
		t.Helper()
		b.queue(b.named(theirs), nil)
		b.bind(theirs, theirs, "amq.topic")
	}
	to := func(n int) error {
		return topology.Repartition(t.Context(), b.conn, topology.Spec{Queue: name, Partitions: n})
	}
	foreign()
	stays("declare", topology.Declare(t.Context(), b.conn, topology.Spec{Queue: name, Partitions: 8}))
	if found, _, err := broker.FindQueue(t.Context(), b.conn, name+".dlq"); found != broker.No {
		t.Errorf("a dead-letter queue was declared: %v", err)
	}
	b.remove(theirs)

	declarePartitions(t, topology.Spec{Queue: name, Partitions: 8})
	b.remove(theirs)
	foreign()
	stays("fewer partitions", to(4))
	b.must(func(ch *amqp.Channel) error { return ch.ExchangeDelete(broker.HashExchange(name, 8), false, false) })
	stays("after a change that was cut off", to(4))
}

// TestPartitionsSpareAForeignExchange: an exchange with the name of one that chooses, which strikes did not declare, is
// not deleted.
func TestPartitionsSpareAForeignExchange(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	stays := func(theirs string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), theirs) {
			t.Error(err)
		}
		if left, found := broker.FindExchange(t.Context(), b.conn, theirs); left != broker.Yes {
			t.Errorf("the exchange %q was deleted: %v", theirs, found)
		}
	}
	for _, kind := range []string{amqp.ExchangeTopic, amqp.ExchangeHeaders} {
		spec := topology.Spec{Queue: b.name(), Partitions: 4}
		theirs := b.named(broker.HashExchange(spec.Queue, 16))
		b.exchange(spec.Queue, amqp.ExchangeFanout)
		b.exchange(theirs, kind)
		b.queue(b.named(theirs+".all"), nil)
		b.bind(theirs+".all", "", theirs)
		stays(theirs, topology.Declare(t.Context(), b.conn, spec))
	}
	s := newShared(t, 4)
	theirs := b.named(broker.HashExchange(s.queue, 16))
	b.exchange(theirs, amqp.ExchangeTopic)
	stays(theirs, s.repartition(b.conn, 16))
	s.sound()
}

// isNoPartition checks that a queue may be consumed, and that its dead letters return to it.
func (b topo) isNoPartition(name string) {
	b.t.Helper()
	if err := topology.Check(b.t.Context(), b.conn, topology.Need{Queue: name, AllowDrop: true}); err != nil {
		b.t.Error(err)
	}
	if of, n, err := broker.FindPartitions(b.t.Context(), b.conn, name); of != "" || n != 0 || err != nil {
		b.t.Errorf("%s is a partition of %q, which has %d: %v", name, of, n, err)
	}
}
