package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/topology"
)

// rejectsLand rejects a message and finds it in the dead-letter queue.
func (b topo) rejectsLand(queue, exchange, key string) {
	b.t.Helper()
	b.publish(exchange, key, "poison")
	b.must(func(ch *amqp.Channel) error {
		deliveries, err := topoConsume(ch, queue)
		if err != nil {
			return err
		}
		d, err := topoNext(deliveries)
		if err != nil {
			return err
		}
		if err := d.Nack(false, false); err != nil {
			return err
		}
		dead, ok := b.get(ch, queue+".dlq")
		if !ok || string(dead.Body) != "poison" || dead.RoutingKey != key || dead.DeliveryMode != amqp.Persistent {
			return fmt.Errorf("in the dead-letter queue: %v, %q, key %q, mode %d", ok, dead.Body, dead.RoutingKey,
				dead.DeliveryMode)
		}
		deaths, _ := dead.Headers["x-death"].([]any)
		if len(deaths) != 1 || deaths[0].(amqp.Table)["reason"] != "rejected" || deaths[0].(amqp.Table)["queue"] != queue {
			return fmt.Errorf("x-death: %v", dead.Headers["x-death"])
		}
		return dead.Nack(false, true)
	})
}

// Looking at a dead letter must not use it up.
func TestTopologyDeadLettersMayBeLookedAt(t *testing.T) {
	t.Parallel()
	looks := map[string]func(*amqp.Channel, amqp.Delivery) error{
		"get and nack":   func(_ *amqp.Channel, d amqp.Delivery) error { return d.Nack(false, true) },
		"get and reject": func(_ *amqp.Channel, d amqp.Delivery) error { return d.Reject(true) },
		"get and close":  func(ch *amqp.Channel, _ amqp.Delivery) error { return ch.Close() },
	}
	for _, kind := range []topology.Type{topology.Quorum, topology.Classic} {
		b := newTopo(t)
		q := b.name()
		b.declare(topology.Spec{Queue: q, Type: kind})
		b.publish("", q+".dlq", "1", "2")
		for how, look := range looks {
			for i := range 30 {
				b.must(func(ch *amqp.Channel) error {
					d, ok := b.get(ch, q+".dlq")
					if !ok || string(d.Body) != "1" {
						return fmt.Errorf("%s, %s, look %d: got %v, %q", kind, how, i+1, ok, d.Body)
					}
					return look(ch, d)
				})
				// the messages of a closed channel come back a moment after it
				proctest.Eventually(t, time.Minute, "both letters are back", func() bool { return b.depths(q)[1] == 2 })
			}
		}
	}
}

func TestTopologyDeadLetterWay(t *testing.T) {
	t.Parallel()
	api := managementURL(t)
	classic := func(pairs ...any) amqp.Table {
		args := amqp.Table{"x-queue-type": "classic"}
		for i := 0; i < len(pairs); i += 2 {
			args[pairs[i].(string)] = pairs[i+1]
		}
		return args
	}
	const dlx, dlk = "x-dead-letter-exchange", "x-dead-letter-routing-key"
	tests := []struct {
		name         string
		set          func(b topo, q string)
		amqp, manage []string // findings without and with the management API
	}{
		{"no exchange", func(b topo, q string) { b.queue(q, classic()) },
			[]string{"error dead-letter-unproven"}, []string{"error no-dead-letter-exchange"}},
		{"exchange that does not exist", func(b topo, q string) { b.queue(q, classic(dlx, q+".dlx")) },
			[]string{"error dead-letter-exchange-missing"}, []string{"error dead-letter-exchange-missing"}},
		{"exchange with nothing bound", func(b topo, q string) {
			b.exchange(q+".dlx", "fanout")
			b.queue(q, classic(dlx, q+".dlx"))
		}, []string{"warning bindings-unknown"}, []string{"error dead-letter-unbound"}},
		{"exchange with another key bound", func(b topo, q string) {
			b.exchange(q+".dlx", "direct")
			b.queue(q+".dlq", nil)
			b.bind(q+".dlq", "other", q+".dlx")
			b.queue(q, classic(dlx, q+".dlx", dlk, "this"))
		}, []string{"warning bindings-unknown"}, []string{"error dead-letter-unbound"}},
		{"direct exchange, its key bound", func(b topo, q string) {
			b.exchange(q+".dlx", "direct")
			b.queue(q+".dlq", nil)
			b.bind(q+".dlq", "this", q+".dlx")
			b.queue(q, classic(dlx, q+".dlx", dlk, "this"))
		}, []string{"warning bindings-unknown"}, nil},
		{"default exchange", func(b topo, q string) {
			b.queue(q+".dlq", nil)
			b.queue(q, classic(dlx, "", dlk, q+".dlq"))
		}, nil, nil},
		{"default exchange, no such queue", func(b topo, q string) { b.queue(q, classic(dlx, "", dlk, q+".dlq")) },
			[]string{"error dead-letter-queue-missing"}, []string{"error dead-letter-queue-missing"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for the API
			b := newTopo(t)
			q := b.name()
			tt.set(b, q)
			b.want("over AMQP", topology.Need{Queue: q, MaxRetries: 3}, tt.amqp...)
			b.want("with the management API", topology.Need{Queue: q, MaxRetries: 3, Management: api}, tt.manage...)
			if err := topology.Check(t.Context(), b.conn, topology.Need{Queue: q, AllowDrop: true,
				Management: api}); err != nil {
				t.Errorf("AllowDrop: %v", err)
			}
		})
	}
}

func TestTopologyByPolicy(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newTopo(t)
			q := b.name()
			b.exchange(q+".dlx", "fanout")
			b.queue(q+".dlq", amqp.Table{"x-queue-type": kind})
			b.bind(q+".dlq", "", q+".dlx")
			definition := map[string]any{"dead-letter-exchange": q + ".dlx"}
			if kind == "quorum" {
				definition["delivery-limit"] = 500
			}
			b.policy(q, definition)
			b.queue(q, amqp.Table{"x-queue-type": kind})

			need := topology.Need{Queue: q, MaxRetries: 3, Management: managementURL(t)}
			if err := topology.Check(t.Context(), b.conn, need); err != nil {
				t.Errorf("what the policy sets is not seen: %v", err)
			}
			b.rejectsLand(q, "", q)
			need.Management = ""
			var refused *topology.RefusedError
			if err := topology.Check(t.Context(), b.conn, need); !errors.As(err, &refused) || !strings.Contains(err.Error(),
				"give the URL of the management API (Check.Management)") {
				t.Errorf("over AMQP: got %v, want a refusal that names Management", err)
			}
		})
	}
}

// A policy with one key that is foreign to the type of the queue is not applied
// at all.
func TestTopologyForeignPolicy(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.exchange(q+".dlx", "fanout")
	b.queue(q+".dlq", nil)
	b.bind(q+".dlq", "", q+".dlx")
	b.policy(q, map[string]any{"dead-letter-exchange": q + ".dlx", "delivery-limit": 500})
	b.queue(q, amqp.Table{"x-queue-type": "classic"})
	b.want("classic queue", topology.Need{Queue: q, Management: managementURL(t)}, "error no-dead-letter-exchange")
}
