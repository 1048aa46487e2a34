package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// Where dead letters land is found on the route that they take, not by a name.
func TestTopologyFindsDeadLetters(t *testing.T) {
	t.Parallel()
	const dlq = ".dlq"
	tests := []struct {
		name         string
		set          func(b topo, q string)
		amqp, manage []string // without and with the management API: queues after q, then the words about them
	}{
		{"as declared", func(b topo, q string) { b.declare(topology.Spec{Queue: q}) },
			[]string{"the bindings of"}, []string{dlq}},
		{"another name", func(b topo, q string) {
			b.exchange(q+".dlx", "fanout")
			b.queue(b.named(q+".dead"), nil)
			b.bind(q+".dead", "", q+".dlx")
			b.queue(q, classic(q))
		}, []string{"the bindings of"}, []string{".dead"}},
		{"by policy", func(b topo, q string) {
			b.way(q, "fanout", "")
			b.policy(q, map[string]any{"dead-letter-exchange": q + ".dlx"})
			b.queue(q, nil)
		}, []string{"whether a policy"}, []string{dlq}},
		{"default exchange", func(b topo, q string) {
			b.queue(b.named(q+".dead"), nil)
			b.queue(q, classic(q, argDLX, "", argDLK, q+".dead"))
		}, []string{".dead"}, []string{".dead"}},
		{"over a queue with a TTL", func(b topo, q string) {
			b.queue(b.named(q+".dead"), nil)
			b.queue(b.named(q+".wait"), amqp.Table{"x-message-ttl": 60000, argDLX: "", argDLK: q + ".dead"})
			b.queue(q, classic(q, argDLX, "", argDLK, q+".wait"))
		}, []string{".dead behind", ".wait delay"}, []string{".dead behind", ".wait delay"}},
		{"two queues, one for some keys", func(b topo, q string) {
			b.way(q, "topic", "#")
			b.queue(b.named(q+".dead"), nil)
			b.bind(q+".dead", "eu.*", q+".dlx")
			b.exchange(b.named(q+".in"), "topic")
			b.queue(q, classic(q))
			b.bind(q, "*.orders", q+".in")
		}, []string{"the bindings of"}, []string{".dead depends", dlq}},
		{"an alternate exchange", func(b topo, q string) {
			b.queue(q+".dlq", nil)
			b.exchange(q+".dlx", "fanout")
			b.bind(q+".dlq", "", q+".dlx")
			b.must(func(ch *amqp.Channel) error {
				return ch.ExchangeDeclare(b.named(q+".first"), "direct", true, false, false, false,
					amqp.Table{"alternate-exchange": q + ".dlx"})
			})
			b.queue(q, classic(q, argDLX, q+".first"))
		}, []string{"the bindings of"}, []string{dlq}},
		{"an exchange that does not exist", func(b topo, q string) {
			b.queue(q+".dlq", nil)
			b.queue(q, classic(q))
		}, []string{"the dead-letter exchange"}, []string{"the dead-letter exchange"}},
		{"no queue", func(b topo, q string) { b.queue(q+".dlq", nil) },
			[]string{"there is no queue"}, []string{"there is no queue"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for the API
			b := newTopo(t)
			q := b.name()
			tt.set(b, q)
			for api, want := range map[string][]string{"": tt.amqp, managementURL(t): tt.manage} {
				found, why, err := doctor.FindDeadLetters(t.Context(), b.conn, inspect.Need{Queue: q, Management: api})
				need(t, err)
				if diff := cmp.Diff(want, landed(found, why, q, want)); diff != "" {
					t.Errorf("management API %q: (-want +got)\n%s", api, diff)
				}
			}
		})
	}
}

// landed returns the findings in the words of the table: as much of each sentence as is wanted.
func landed(queues []inspect.Landing, why, q string, want []string) []string {
	var out []string
	for _, x := range queues {
		says := strings.TrimPrefix(x.Name, q)
		for word, is := range map[string]bool{" depends": x.Depends, " behind": x.Behind, " delay": x.Delay} {
			if is {
				says += word
			}
		}
		out = append(out, says)
	}
	if why != "" {
		out = append(out, why)
	}
	for i := range out {
		if i < len(want) && strings.HasPrefix(out[i], want[i]) && i >= len(queues) {
			out[i] = want[i]
		}
	}
	return out
}

// TestDeadLettersThatWait: a quorum queue whose dead-letter exchange is gone keeps rejected messages. AMQP does not
// count them, and the management API does.
func TestDeadLettersThatWait(t *testing.T) {
	t.Parallel()
	const n = 5
	queue := declared(t, topology.Quorum)
	publish(t, queue, "m", n)
	ready := -1
	err := onChannel(dialer(t), func(ch *amqp.Channel) error {
		if err := ch.ExchangeDelete(queue+".dlx", false, false); err != nil {
			return err
		}
		for range n {
			d, ok, err := ch.Get(queue, false)
			if err := errors.Join(err, d.Nack(false, false)); err != nil || !ok {
				return fmt.Errorf("got %v, %w", ok, err)
			}
		}
		q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		ready = q.Messages
		return err
	})
	if err != nil || ready != 0 {
		t.Fatalf("%d ready, %v", ready, err)
	}
	conn, need := dialBroker(t), inspect.Need{Queue: queue, Management: managementURL(t)}
	var load broker.Load
	eventually(t, "the dead letters that wait", func() bool {
		load, err = doctor.Measure(t.Context(), conn, need)
		return err == nil && load.DeadLettering == n
	})
	if load.Ready != 0 || load.Unacked != 0 {
		t.Errorf("%+v", load)
	}
}

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
