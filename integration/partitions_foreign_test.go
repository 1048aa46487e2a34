package integration

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/ops"
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
	b.must(func(ch *amqp.Channel) error {
		_, err := ch.QueuePurge(other, false)
		return err
	})
	if err := topology.Repartition(t.Context(), b.conn, topology.Spec{Queue: s.queue, Partitions: 2}); err != nil {
		t.Error(err)
	}
	if left, _, err := broker.FindQueue(t.Context(), b.conn, other); left != broker.Yes {
		t.Errorf("the queue %s, which is empty, was deleted: %v", other, err)
	}
}

// TestNoPartitions: queues with the names of partitions, of an exchange that strikes did not declare, are queues like
// all others.
func TestNoPartitions(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	exchange := b.name()
	b.exchange(exchange, amqp.ExchangeFanout)
	for _, name := range broker.Partitions(exchange, 2) {
		b.queue(b.named(name), nil)
		b.bind(name, "", exchange)
		b.isNoPartition(name)
	}
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
