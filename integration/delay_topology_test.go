package integration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// TestDelayTopology declares the delay queues, and finds their defects.
func TestDelayTopology(t *testing.T) {
	t.Parallel()
	b := topoDial(t, servertest.VirtualHost(t))
	b.wantDelayQueues("before", broker.No)
	spec := topology.Spec{Queue: b.name(), DelayQueues: true}
	b.declare(spec)
	b.declare(spec) // again: nothing changes
	b.wantDelayQueues("declared", broker.Yes)

	hour := broker.DelayQueues[2]
	b.must(func(ch *amqp.Channel) error { _, err := ch.QueueDelete(hour.Name, false, false, false); return err })
	b.wantDelayQueues("a queue is missing", broker.Yes, `queue "strikes.delay.1h" does not exist`)
	args := hour.Arguments()
	args["x-message-ttl"] = int64(1)
	b.queue(hour.Name, args)
	b.wantDelayQueues("another TTL", broker.Yes, `queue "strikes.delay.1h" has another x-message-ttl`)
	if err := topology.Declare(t.Context(), b.conn, spec); err == nil || !strings.Contains(err.Error(),
		"x-message-ttl 1, not 3600000") {
		t.Errorf("declare over another TTL: %v", err)
	}
	b.must(func(ch *amqp.Channel) error { _, err := ch.QueueDelete(hour.Name, false, false, false); return err })
	args = hour.Arguments()
	delete(args, "x-dead-letter-exchange")
	delete(args, "x-dead-letter-strategy")
	b.queue(hour.Name, args)
	b.wantDelayQueues("no dead-letter exchange", broker.Yes, `queue "strikes.delay.1h" has another x-dead-letter-exchange`)
	b.must(func(ch *amqp.Channel) error { _, err := ch.QueueDelete(hour.Name, false, false, false); return err })
	b.declare(spec)
	b.must(func(ch *amqp.Channel) error { return ch.ExchangeDelete(hour.Name, false, false) })
	b.wantDelayQueues("an exchange is missing", broker.Yes, `exchange "strikes.delay.1h" does not exist`)
	b.declare(spec)
	b.wantDelayQueues("declared again", broker.Yes)
}

func (b topo) wantDelayQueues(when string, want broker.Answer, wrong ...string) {
	b.t.Helper()
	found, seen, unread, err := broker.DelayQueuesOf(b.t.Context(), b.conn)
	if err != nil || found != want || len(unread) > 0 {
		b.t.Fatalf("%s: found %v, unread %q, %v", when, found, unread, err)
	}
	if diff := cmp.Diff(wrong, seen); diff != "" {
		b.t.Errorf("%s: %s", when, diff)
	}
}
