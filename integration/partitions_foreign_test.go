package integration

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/topology"
)

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
		err := topology.Repartition(t.Context(), b.conn, topology.Spec{Queue: s.queue, Partitions: n})
		if err != nil {
			t.Errorf("to %d partitions: %v", n, err)
		}
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
	if err := topology.Repartition(t.Context(), b.conn, topology.Spec{Queue: s.queue, Partitions: 2}); err != nil {
		t.Error(err)
	}
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
	stays(theirs, topology.Repartition(t.Context(), b.conn, topology.Spec{Queue: s.queue, Partitions: 16}))
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
