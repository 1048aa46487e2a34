package integration

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/topology"
)

func topoSpecs(queue string) map[string]topology.Spec {
	return map[string]topology.Spec{
		"quorum":                          {Queue: queue},
		"quorum, single active consumer":  {Queue: queue, SingleActiveConsumer: true},
		"classic":                         {Queue: queue, Type: topology.Classic},
		"classic, single active consumer": {Queue: queue, Type: topology.Classic, SingleActiveConsumer: true},
	}
}

func TestTopologyDeclared(t *testing.T) {
	t.Parallel()
	for name := range topoSpecs("") {
		t.Run(name, func(t *testing.T) {
			b := newTopo(t)
			q, source := b.name(), b.name()
			b.exchange(source, "topic")
			spec := topoSpecs(q)[name]
			b.declare(spec)
			b.declare(spec) // again: nothing changes
			b.bind(q, "order.*", source)
			b.queue(q+".dlq", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 1<<31 - 1}) // refused if it differs

			need := topology.Need{Queue: q, MaxRetries: 3, Ordered: spec.SingleActiveConsumer}
			b.want("over AMQP", need, "warning bindings-unknown")
			need.Management = managementURL(t)
			b.want("with the management API", need)
			if !spec.SingleActiveConsumer {
				need.Ordered = true
				b.want("order", need, "error not-single-active")
			}
			b.rejectsLand(q, source, "order.new")
		})
	}
}

func TestTopologyDeclareMismatch(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.queue(q, amqp.Table{"x-queue-type": "classic", "x-max-length": 10})
	err := topology.Declare(t.Context(), b.conn, topology.Spec{Queue: q})
	for _, w := range []string{
		`topology: declare queue "` + q + `"`, ": it exists with x-queue-type 'classic', not 'quorum'; a queue keeps",
		"nothing was declared",
	} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in the error: %v", w, err)
		}
	}
	if found, _, err := broker.FindQueue(t.Context(), b.conn, q+".dlq"); found != broker.No || err != nil {
		t.Errorf("a refused Declare leaves a dead-letter queue: %v, %v", found, err)
	}
	other := b.name()
	b.exchange(other+".dlx", "direct")
	err = topology.Declare(t.Context(), b.conn, topology.Spec{Queue: other})
	for _, w := range []string{`declare exchange "` + other + `.dlx"`, "with type 'direct'", "nothing was declared"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in the error: %v", w, err)
		}
	}
	parts := b.name()
	b.queue(parts+".dlq", amqp.Table{"x-queue-type": "classic"})
	err = topology.Declare(t.Context(), b.conn, topology.Spec{Queue: parts, Partitions: 2})
	if err == nil || !strings.Contains(err.Error(), "nothing was declared") {
		t.Errorf("partitions: %v", err)
	}
	if found, err := broker.FindExchange(t.Context(), b.conn, parts+".dlx"); found != broker.No || err != nil {
		t.Errorf("refused partitions leave a dead-letter exchange: %v, %v", found, err)
	}
}

// TestTopologyDeclareDenied: a user who may not declare is told which permission of the queue is missing. From RabbitMQ
// 4.0 on, such a user may not ask for the partitions of the queue either.
func TestTopologyDeclareDenied(t *testing.T) {
	t.Parallel()
	b := newTopo(t).as("^$", "^$", "^$")
	q := b.name()
	err := topology.Declare(t.Context(), b.conn, topology.Spec{Queue: q})
	for _, w := range []string{"access to exchange '" + q + ".dlx'", "; grant it to the user: ",
		"nothing was declared"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in the error: %v", w, err)
		}
	}
}

func TestTopologyDeclareAtOnce(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := topology.Declare(t.Context(), b.conn, topology.Spec{Queue: q}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b.want("afterwards", topology.Need{Queue: q}, "warning bindings-unknown")
}

func TestTopologyNames(t *testing.T) {
	t.Parallel()
	long := "topology." + strings.Repeat("settlement.", 20) + uuid.NewString()[:8]
	for name, want := range map[string][]string{
		long:                          {"warning bindings-unknown"},
		"größe a+b c/%2F 'x'?#":       {"warning bindings-unknown"},
		strings.Repeat("größe.", 20):  {"error arguments-unknown"},
		"but current is none' of 'x'": {"warning bindings-unknown"},
	} {
		b := newTopo(t)
		deleteLater(t, name)
		b.declare(topology.Spec{Queue: name})
		b.want(name+" over AMQP", topology.Need{Queue: name, MaxRetries: 3}, want...)
		b.want(name+" with the management API", topology.Need{Queue: name, MaxRetries: 3, Management: managementURL(t)})
	}
}

// TestTopologyLongestName: the longest name that is not ASCII, of which the broker can say that there is no such queue.
func TestTopologyLongestName(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	for _, partitions := range []int{0, 2} {
		longest := 216 // in the virtual host /
		if partitions > 0 {
			longest -= len(".hash2")
		}
		name := uniqueName(t, strings.Repeat("é", 80))
		name += strings.Repeat("x", longest-len(name))
		spec := topology.Spec{Queue: name, Partitions: partitions}
		declarePartitions(t, spec)
		var refused *topology.FieldError
		spec.Queue += "x"
		if broker.VersionOf(b.conn).Before(4, 0) { // it has no such limit
			declarePartitions(t, spec)
			continue
		}
		if err := topology.Declare(t.Context(), b.conn, spec); !errors.As(err, &refused) || b.conn.IsClosed() ||
			!strings.Contains(err.Error(), fmt.Sprint(longest, " bytes")) {
			t.Error(err)
		}
		if partitions > 0 {
			grown := topology.Spec{Queue: name, Partitions: 12}
			if err := topology.Repartition(t.Context(), b.conn, grown); !errors.As(err, &refused) || b.conn.IsClosed() {
				t.Error("a change to more partitions, whose exchange has a longer name:", err)
			}
		}
	}
}

// Why queueinfo.CheckName refuses these: the one ends the connection, the other is about another queue.
func TestTopologyNamesThatAreRefused(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.must(func(ch *amqp.Channel) error {
		made, err := ch.QueueDeclare(q[:9]+"\r\n"+q[9:], false, false, false, false, nil)
		if made.Name != q {
			t.Errorf("a line break made a queue of the name %q, not %q", made.Name, q)
		}
		return err
	})
	err := onChannel(dialer(t), func(ch *amqp.Channel) error {
		return errOf(ch.QueueDeclarePassive(q+"\xff", false, false, false, false, nil))
	})
	var reply *amqp.Error
	if !errors.As(err, &reply) || reply.Code != amqp.FrameError {
		t.Errorf("a name that is not UTF-8: %v", err)
	}
	for _, name := range []string{q[:9] + "\r\n" + q[9:], q + "\xff"} {
		if err := topology.Check(t.Context(), b.conn, topology.Need{Queue: name}); err == nil || b.conn.IsClosed() {
			t.Errorf("%q: %v, and the connection is closed: %v", name, err, b.conn.IsClosed())
		}
	}
}

// A limit of N lets a message be delivered N+1 times.
func TestTopologyDeliveryLimit(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.declare(topology.Spec{Queue: q, DeliveryLimit: 4})
	b.publish("", q, "poison")
	for range 5 {
		b.reject(q, true)
	}
	b.reject(q+".dlq", true)
	b.want("no room", topology.Need{Queue: q, MaxRetries: 1}, "error delivery-limit-low", "warning bindings-unknown")
	b.want("little room", topology.Need{Queue: q, MaxRetries: -1}, "warning delivery-limit-tight",
		"warning bindings-unknown")
}
