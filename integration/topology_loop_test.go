package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// circle is a dead-letter route that leads back to its queue, or seems to.
type circle struct {
	name    string
	set     func(b topo, q string)
	via     string // exchange that the message is published to, after q; empty: by the name of the queue
	key     string
	returns time.Duration // after which a rejected message is back, at most; zero: it never is
	through string        // queue, after q, in which it is rejected once more
	manage  string        // finding with the management API, but for the best known
	amqp    string        // and without
}

// circles are met by a broker as the rules say.
func circles() []circle {
	const now, late, soon = "error dead-letter-loop", "warning dead-letter-delay-loop", 5 * time.Second
	exchangeBind := func(b topo, to, key, from string) {
		b.must(func(ch *amqp.Channel) error { return ch.ExchangeBind(to, key, from, false, nil) })
	}
	declareWith := func(b topo, name, kind, alternate string) {
		b.must(func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(name, kind, true, false, false, false, amqp.Table{"alternate-exchange": alternate})
		})
	}
	// back makes the queue and a dead-letter queue; its dead letters go to from, and come back over the fanout in.
	back := func(b topo, q string, pairs ...any) (in string) {
		in = b.named(q + ".in")
		b.exchange(in, "fanout")
		b.queue(q+".dlq", lettersTo())
		b.queue(q, classic(q, pairs...))
		b.bind(q, "", in)
		return in
	}
	wait := func(pairs ...any) func(topo, string) {
		return func(b topo, q string) {
			b.queue(b.named(q+".wait"), changed(amqp.Table{argDLX: "", argDLK: q}, pairs...))
			b.queue(q, classic(q, argDLX, "", argDLK, q+".wait"))
		}
	}
	return []circle{
		{name: "a fanout bound to the dead-letter queue and to the queue", set: func(b topo, q string) {
			b.way(q, "fanout", "")
			b.queue(q, classic(q))
			b.bind(q, "", q+".dlx")
		}, returns: soon, manage: now},
		{name: "a fanout bound to the queue alone", set: func(b topo, q string) {
			b.exchange(q+".dlx", "fanout")
			b.queue(q, classic(q))
			b.bind(q, "", q+".dlx")
		}, returns: soon, manage: now},
		{name: "the dead-letter queue and back, quorum", set: func(b topo, q string) {
			b.way(q, "fanout", "")
			b.queue(q, quorum(q))
			b.bind(q, "", q+".dlx")
		}, returns: soon, manage: now},
		{name: "over another exchange", set: func(b topo, q string) {
			b.exchange(q+".dlx", "fanout")
			in := back(b, q)
			b.bind(q+".dlq", "", q+".dlx")
			exchangeBind(b, in, "", q+".dlx")
		}, returns: soon, manage: now},
		{name: "over an alternate exchange", set: func(b topo, q string) {
			in := back(b, q, argDLK, "dead")
			declareWith(b, q+".dlx", "direct", in)
			b.bind(q+".dlq", "other", q+".dlx")
		}, returns: soon, manage: now},
		{name: "over an alternate exchange by policy", set: func(b topo, q string) {
			in := back(b, q, argDLK, "dead")
			topoAPI(b.t, "PUT", "policies/%2F/"+q, map[string]any{"pattern": "^" + q + ".dlx$", "apply-to": "exchanges",
				"definition": map[string]any{"alternate-exchange": in}})
			b.t.Cleanup(func() { topoAPI(b.t, "DELETE", "policies/%2F/"+q, nil) })
			b.exchange(q+".dlx", "direct")
			b.bind(q+".dlq", "other", q+".dlx")
		}, returns: soon, manage: now},
		{name: "an alternate exchange that nothing reaches", set: func(b topo, q string) {
			in := back(b, q, argDLK, "dead")
			declareWith(b, q+".dlx", "direct", in)
			b.bind(q+".dlq", "dead", q+".dlx")
		}},
		{name: "the exchange that it came from", set: func(b topo, q string) {
			b.exchange(b.named(q+".in"), "direct")
			b.queue(q, classic(q, argDLX, q+".in"))
			b.bind(q, "created", q+".in")
		}, via: ".in", key: "created", returns: soon, manage: now},
		{name: "the exchange that it came from, another key", set: func(b topo, q string) {
			b.exchange(b.named(q+".in"), "direct")
			b.queue(q+".dlq", lettersTo())
			b.queue(q, classic(q, argDLX, q+".in", argDLK, "dead"))
			b.bind(q, "created", q+".in")
			b.bind(q+".dlq", "dead", q+".in")
		}, via: ".in", key: "created"},
		{name: "a topic, a key that another exchange lets through", set: func(b topo, q string) {
			b.way(q, "topic", "#")
			b.exchange(b.named(q+".in"), "topic")
			b.queue(q, classic(q))
			b.bind(q, "eu.*", q+".in")
			b.bind(q, "*.1", q+".dlx")
		}, via: ".in", key: "eu.1", returns: soon, manage: now},
		// A dead letter without a fixed routing key may have any, so the rule takes it for one that comes back.
		{name: "a topic, a key that nothing lets through", set: func(b topo, q string) {
			b.way(q, "topic", "#")
			b.exchange(b.named(q+".in"), "topic")
			b.queue(q, classic(q))
			b.bind(q, "eu.*", q+".in")
			b.bind(q, "us.*", q+".dlx")
		}, via: ".in", key: "eu.1", manage: now},
		{name: "headers", set: func(b topo, q string) {
			b.way(q, "headers", "")
			b.queue(q, classic(q))
			b.bind(q, "", q+".dlx")
		}, returns: soon, manage: now},
		{name: "the default exchange, its own name", set: func(b topo, q string) {
			b.queue(q, classic(q, argDLX, "", argDLK, q))
		},
			returns: soon, manage: now, amqp: now},
		{name: "the default exchange, no key", set: func(b topo, q string) { b.queue(q, classic(q, argDLX, "")) },
			returns: soon, manage: now, amqp: now},
		{name: "a queue with a TTL", set: wait("x-message-ttl", 700), returns: soon, manage: late, amqp: late},
		{name: "a queue with a TTL by policy", set: func(b topo, q string) {
			b.policy(q+".wait", map[string]any{"message-ttl": 700})
			wait()(b, q)
		}, returns: soon, manage: late, amqp: now}, // AMQP does not show a policy
		{name: "a queue with a TTL of zero", set: wait("x-message-ttl", 0), returns: soon, manage: now, amqp: now},
		{name: "a queue from which it is rejected back", set: wait(), through: ".wait", returns: soon, manage: now,
			amqp: now},
		{name: "a queue from which it is rejected elsewhere", set: func(b topo, q string) {
			b.queue(q+".dlq", lettersTo())
			wait(argDLK, q+".dlq")(b, q)
		}, through: ".wait"},
	}
}

func TestTopologyDeadLetterLoops(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for _, tt := range circles() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for the API
			b := newTopo(t)
			q := b.name()
			tt.set(b, q)
			for api, want := range map[string]string{"": tt.amqp, managementURL(t): tt.manage} {
				need := topology.Need{Queue: q, MaxRetries: 1, Management: api}
				eventually(t, fmt.Sprintf("with API %q the finding %q", api, want), func() bool {
					got := strings.Join(slices.DeleteFunc(b.codes(need), func(c string) bool {
						return !strings.Contains(c, "loop")
					}), ", ")
					return got == want
				})
				need.AllowDrop = true // excuses a loss, not a loop
				var refused *topology.RefusedError
				if err := topology.Check(t.Context(), b.conn, need); errors.As(err, &refused) != strings.HasPrefix(want, "error") {
					t.Errorf("with API %q Check returned %v", api, err)
				}
			}
			if at := b.rejectOnce(q, tt); (at > 0) != (tt.returns > 0) {
				t.Errorf("a rejected message was back after %v, the rules say %v", at, tt.returns)
			}
		})
	}
}

// rejectOnce publishes and rejects a message, and says after how long it is back; zero if it is not.
func (b topo) rejectOnce(q string, c circle) (after time.Duration) {
	b.t.Helper()
	exchange, key := "", q
	if c.via != "" {
		exchange, key = q+c.via, c.key
	}
	b.publish(exchange, key, "poison")
	b.reject(q, false)
	if c.through != "" {
		b.reject(q+c.through, false)
	}
	begun, patience := time.Now(), c.returns
	if patience == 0 {
		patience = time.Second
	}
	for time.Since(begun) < patience {
		found := false
		b.must(func(ch *amqp.Channel) (err error) {
			_, found, err = ch.Get(q, true)
			return err
		})
		if found {
			return max(time.Since(begun), 1)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0
}
