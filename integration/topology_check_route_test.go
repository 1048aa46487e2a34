package integration

import (
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/topology"
)

// TestCheckRoute breaks the dead-letter route of a queue in each way that loses dead letters, and repairs it.
func TestCheckRoute(t *testing.T) {
	t.Parallel()
	full := func(q string) amqp.Table {
		return amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": q + ".dlq"}
	}
	limited := amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"}
	asDeclared := func(b topo, q string) { b.declare(topology.Spec{Queue: q, Type: topology.Classic}) }
	for _, tc := range []struct {
		name    string
		set     func(b topo, q string) // if nil, asDeclared
		broken  func(b topo, q string)
		repair  func(b topo, q string)
		code    string
		unknown bool // without the management API
	}{
		{
			name: "exchange deleted",
			broken: func(b topo, q string) {
				b.must(func(ch *amqp.Channel) error { return ch.ExchangeDelete(q+".dlx", false, false) })
			},
			repair: asDeclared,
			code:   "dead-letter-exchange-missing",
		},
		{
			name: "binding removed",
			broken: func(b topo, q string) {
				b.must(func(ch *amqp.Channel) error { return ch.QueueUnbind(q+".dlq", "", q+".dlx", nil) })
			},
			repair: func(b topo, q string) { b.bind(q+".dlq", "", q+".dlx") },
			code:   "dead-letter-unbound", unknown: true,
		},
		{
			name: "dead-letter queue deleted",
			set: func(b topo, q string) {
				b.queue(q+".dlq", nil)
				b.queue(q, full(q))
			},
			broken: func(b topo, q string) { b.remove(q + ".dlq") },
			repair: func(b topo, q string) { b.queue(q+".dlq", nil) },
			code:   "dead-letter-queue-missing",
		},
		{
			name: "dead-letter queue full",
			set: func(b topo, q string) {
				b.queue(q+".dlq", limited)
				b.queue(q, full(q))
			},
			broken: func(b topo, q string) { b.publish("", q+".dlq", "dead") },
			repair: func(b topo, q string) { purged(b.t, q+".dlq") },
			code:   "dead-letter-queue-full",
		},
		{
			name: "an exchange that leads to no queue",
			broken: func(b topo, q string) {
				b.must(func(ch *amqp.Channel) error {
					return errors.Join(
						ch.QueueUnbind(q+".dlq", "", q+".dlx", nil),
						ch.ExchangeDeclare(q+".next", "fanout", false, true, false, false, nil), // deleted with its last binding
						ch.ExchangeBind(q+".next", "", q+".dlx", false, nil),
					)
				})
			},
			repair: func(b topo, q string) {
				b.must(func(ch *amqp.Channel) error { return ch.ExchangeDelete(q+".next", false, false) })
				b.bind(q+".dlq", "", q+".dlx")
			},
			code: "dead-letter-unbound", unknown: true,
		},
		{
			name:   "a binding that leads back",
			broken: func(b topo, q string) { b.bind(q, "", q+".dlx") },
			repair: func(b topo, q string) {
				b.must(func(ch *amqp.Channel) error { return ch.QueueUnbind(q, "", q+".dlx", nil) })
			},
			code: "dead-letter-loop", unknown: true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newTopo(t)
			q := b.name()
			if tc.set == nil {
				tc.set = asDeclared
			}
			tc.set(b, q)
			for _, management := range []string{"", managementURL(t)} {
				need := topology.Need{Queue: q, Management: management}
				check := func() error { return topology.CheckRoute(t.Context(), b.conn, need) }
				if err := check(); err != nil {
					t.Errorf("whole: %v", err)
				}
				tc.broken(b, q)
				err := check()
				if refused := new(topology.RefusedError); tc.unknown && management == "" {
					if err != nil {
						t.Errorf("what cannot be seen is taken for broken: %v", err)
					}
				} else if !errors.As(err, &refused) || refused.Findings[0].Code != tc.code {
					t.Errorf("broken: %v; want %s", err, tc.code)
				}
				need.AllowDrop = true
				if err := check(); err != nil {
					t.Errorf("AllowDrop: %v", err)
				}
				need.AllowDrop = false
				tc.repair(b, q)
			}
		})
	}
}

// TestCheckRouteOfAQueueThatKeepsDeadLetters has nothing be lost, so nothing is held.
func TestCheckRouteOfAQueueThatKeepsDeadLetters(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.declare(topology.Spec{Queue: q})
	b.must(func(ch *amqp.Channel) error { return ch.ExchangeDelete(q+".dlx", false, false) })
	if err := topology.CheckRoute(t.Context(), b.conn, topology.Need{Queue: q, Management: managementURL(t)}); err != nil {
		t.Error(err)
	}
}
