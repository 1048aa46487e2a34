package integration

import (
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/topology"
)

// patient is a queue that was set up well, or not.
type patient struct {
	name string
	set  func(b topo, q string)
	need inspect.Need // beyond Queue and MaxRetries
	want string       // codes of the findings, in any order
}

const (
	argDLX   = "x-dead-letter-exchange"
	argDLK   = "x-dead-letter-routing-key"
	argLimit = "x-delivery-limit"
)

// enough is the delivery limit that Declare gives a dead-letter queue.
const enough = 1<<31 - 1

// quorum are the arguments of a queue as Declare makes it, changed by pairs; nil takes one out.
func quorum(q string, pairs ...any) amqp.Table {
	args := amqp.Table{
		"x-queue-type": "quorum", argDLX: q + ".dlx", argLimit: 1000,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	}
	return changed(args, pairs...)
}

func classic(q string, pairs ...any) amqp.Table {
	return changed(amqp.Table{"x-queue-type": "classic", argDLX: q + ".dlx"}, pairs...)
}

func lettersTo(pairs ...any) amqp.Table {
	return changed(amqp.Table{"x-queue-type": "quorum", argLimit: enough}, pairs...)
}

func changed(args amqp.Table, pairs ...any) amqp.Table {
	for i := 0; i < len(pairs); i += 2 {
		if args[pairs[i].(string)] = pairs[i+1]; pairs[i+1] == nil {
			delete(args, pairs[i].(string))
		}
	}
	return args
}

// way makes an exchange of the kind, bound to a sound dead-letter queue by the key.
func (b topo) way(q, kind, key string) {
	b.t.Helper()
	b.exchange(q+".dlx", kind)
	b.queue(q+".dlq", lettersTo())
	b.bind(q+".dlq", key, q+".dlx")
}

// alternate makes a dead-letter exchange that nothing is bound to, and its alternate exchange, which has the queue's
// name.
func (b topo) alternate(q string) {
	b.t.Helper()
	b.exchange(q, "fanout")
	b.must(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(q+".dlx", "topic", true, false, false, false, amqp.Table{"alternate-exchange": q})
	})
}

// ends makes a queue whose dead-letter queue has these arguments.
func (b topo) ends(q string, args amqp.Table) {
	b.t.Helper()
	b.exchange(q+".dlx", "fanout")
	b.queue(q+".dlq", args)
	b.bind(q+".dlq", "", q+".dlx")
	b.queue(q, quorum(q))
}

// on makes a queue with these arguments and a sound way.
func on(args func(q string, pairs ...any) amqp.Table, pairs ...any) func(topo, string) {
	return func(b topo, q string) {
		b.t.Helper()
		b.way(q, "fanout", "")
		b.queue(q, args(q, pairs...))
	}
}

// consumed makes a sound queue and consumes from it until the test ends.
func consumed(prefetch int, autoAck bool) func(topo, string) {
	return consumedWith(prefetch, autoAck, nil)
}

// consumedWith does it with arguments of the consumer, from a queue with others.
func consumedWith(prefetch int, autoAck bool, args amqp.Table, pairs ...any) func(topo, string) {
	return attended(on(quorum, pairs...), prefetch, autoAck, args)
}

// attended consumes from a queue until the test ends, and acks nothing.
func attended(set func(topo, string), prefetch int, autoAck bool, args amqp.Table) func(topo, string) {
	return func(b topo, q string) {
		b.t.Helper()
		set(b, q)
		ch, err := b.conn.Channel()
		if err == nil {
			err = ch.Qos(prefetch, 0, false)
		}
		if err == nil {
			_, err = ch.Consume(q, "", autoAck, false, false, false, args)
		}
		need(b.t, err)
		b.t.Cleanup(func() { ch.Close() })
	}
}

// holding makes a queue with messages of these delivery modes in it.
func holding(args func(string, ...any) amqp.Table, modes ...uint8) func(topo, string) {
	return func(b topo, q string) {
		b.t.Helper()
		on(args)(b, q)
		b.must(func(ch *amqp.Channel) error {
			var msgs []amqp.Publishing
			for _, mode := range modes {
				msgs = append(msgs, amqp.Publishing{DeliveryMode: mode, Body: []byte("hello")})
			}
			return confirmed(ch, "", q, msgs...)
		})
	}
}

// sick are set-ups that lose, reorder or block messages.
func sick(b topo) []patient {
	ordered := inspect.Need{Ordered: true}
	priority := "warning consumer-priority"
	if b.before(4, 3) {
		priority = ""
	}
	return slices.Concat(lost(), ended(), limited(b), []patient{
		{"policy with a foreign key", func(b topo, q string) {
			b.way(q, "fanout", "")
			b.policy(q, map[string]any{"dead-letter-exchange": q + ".dlx", "delivery-limit": 500})
			b.queue(q, amqp.Table{"x-queue-type": "classic"})
		}, inspect.Need{}, "error no-dead-letter-exchange, warning policy-not-applied"},
		{"order, several consumers at once", on(quorum), ordered, "error not-single-active"},
		{"order and priorities", on(classic, "x-max-priority", 5, "x-single-active-consumer", true), ordered,
			"error priorities"},
		{"consumers that do not ack", consumed(1, true), inspect.Need{}, "error auto-ack"},
		{"consumers without prefetch", consumed(0, false), inspect.Need{}, "warning no-prefetch"},
		{"consumers with a priority", consumedWith(10, false, amqp.Table{"x-priority": 5}, "x-single-active-consumer", true),
			inspect.Need{}, priority},
		{"transient messages", holding(classic, amqp.Transient, amqp.Persistent), inspect.Need{},
			"warning no-consumer, warning transient-messages"},
		{"messages and no consumer", holding(quorum, amqp.Persistent), inspect.Need{}, "warning no-consumer"},
	})
}

// lost: dead letters that reach no queue.
func lost() []patient {
	none := inspect.Need{}
	return []patient{
		{"no dead-letter exchange", on(quorum, argDLX, nil, "x-dead-letter-strategy", nil), none,
			"error no-dead-letter-exchange"},
		{"dead-letter exchange that does not exist", func(b topo, q string) {
			b.queue(q, quorum(q))
		}, none, "error dead-letter-exchange-missing"},
		{"nothing bound", func(b topo, q string) {
			b.exchange(q+".dlx", "fanout")
			b.queue(q, quorum(q))
		}, none, "error dead-letter-unbound"},
		{"direct, another key bound", func(b topo, q string) {
			b.way(q, "direct", "other")
			b.queue(q, quorum(q, argDLK, "this"))
		}, none, "error dead-letter-unbound"},
		{"topic, no pattern matches", func(b topo, q string) {
			b.way(q, "topic", "dead.*.now")
			b.queue(q, quorum(q, argDLK, "dead.orders"))
		}, none, "error dead-letter-unbound"},
		{"direct, whatever key", func(b topo, q string) {
			b.way(q, "direct", "orders")
			b.queue(q, quorum(q))
		}, none, "warning dead-letter-key-open"},
		{"to another exchange, and no further", func(b topo, q string) {
			b.exchange(q+".dlx", "fanout")
			b.exchange(q, "fanout")
			b.must(func(ch *amqp.Channel) error { return ch.ExchangeBind(q, "", q+".dlx", false, nil) })
			b.queue(q, quorum(q))
		}, none, "error dead-letter-unbound"},
		{"to an alternate exchange, and no further", func(b topo, q string) {
			b.alternate(q)
			b.queue(q, quorum(q))
		}, none, "error dead-letter-unbound"},
		{"default exchange, no such queue", func(b topo, q string) { b.queue(q, quorum(q, argDLX, "", argDLK, q+".dlq")) },
			none, "error dead-letter-queue-missing"},
		{"back to itself", func(b topo, q string) {
			b.exchange(q+".dlx", "fanout")
			b.queue(q, quorum(q))
			b.bind(q, "", q+".dlx")
		}, none, "error dead-letter-loop"},
		{"to the dead-letter queue, and back", func(b topo, q string) {
			on(quorum)(b, q)
			b.bind(q, "", q+".dlx")
		}, none, "error dead-letter-loop"},
		{"back to itself by policy, over the exchange it comes from", func(b topo, q string) {
			b.way(q, "fanout", "")
			b.exchange(b.named(q+".in"), "fanout")
			b.policy(q, map[string]any{"dead-letter-exchange": q + ".in", "max-length": 100000, "overflow": "reject-publish"})
			b.queue(q, quorum(q, argDLX, nil))
			b.bind(q, "", q+".in")
		}, none, "error dead-letter-loop"},
		{"back to itself after a while", func(b topo, q string) {
			b.queue(b.named(q+".wait"), lettersTo("x-message-ttl", 60000, argDLX, "", argDLK, q))
			b.queue(q, quorum(q, argDLX, "", argDLK, q+".wait"))
		}, none, "warning dead-letter-delay-loop"},
	}
}

// ended returns queues with dead-letter queues that do not keep the messages that reach them.
func ended() []patient {
	end := func(name, want string, pairs ...any) patient {
		return patient{name, func(b topo, q string) { b.ends(q, lettersTo(pairs...)) }, inspect.Need{}, want}
	}
	return []patient{
		end("dead-letter queue that drops the oldest", "error dead-letter-queue-limited", "x-max-length", 1000),
		end("dead-letter queue that fills", "warning dead-letter-queue-limited", "x-max-length-bytes", 1000000, "x-overflow",
			"reject-publish"),
		end("dead-letter queue that forgets", "warning dead-letter-queue-ttl", "x-message-ttl", 86400000),
		end("dead-letter queue that goes", "warning dead-letter-queue-temporary", "x-expires", 86400000),
		end("dead-letter queue that bears few looks", "warning dead-letter-queue-delivery-limit", argLimit, 20),
		end("stream of dead letters", "warning dead-letter-queue-stream", "x-queue-type", "stream", argLimit, nil),
		end("classic dead-letter queue", "warning dead-letter-queue-classic", "x-queue-type", "classic", argLimit, nil),
	}
}

// limited: the broker ends or moves messages before their retries are over.
func limited(b topo) []patient {
	none := inspect.Need{}
	byVersion := func(v3, v4, v43 string) string {
		switch {
		case b.before(4, 0):
			return v3
		case b.before(4, 3):
			return v4
		}
		return v43
	}
	return []patient{
		{"no delivery limit", on(quorum, argLimit, nil), none,
			byVersion("error requeue-to-tail", "warning delivery-limit-tight", "warning delivery-limit-tight")},
		{"delivery limit below the retries", on(quorum, argLimit, 5), none, "error delivery-limit-low"},
		{"delivery limit just above the retries", on(quorum, argLimit, 50), none, "warning delivery-limit-tight"},
		{"at most once", on(quorum, "x-dead-letter-strategy", nil), none, "warning dead-letter-at-most-once"},
		{"at least once, and drop-head", on(quorum, "x-overflow", nil), none, "warning dead-letter-at-most-once"},
		{"message TTL", on(quorum, "x-message-ttl", 60000), none, "warning message-ttl"},
		{"drops from its head", on(classic, "x-max-length", 10), none, "warning drops-head"},
		{"expires", on(classic, "x-expires", 600000), none, "warning expires"},
	}
}

// healthy are set-ups with nothing wrong.
func healthy(b topo) []patient {
	ordered, none := inspect.Need{Ordered: true}, inspect.Need{}
	declared := func(s topology.Spec) func(topo, string) {
		return func(b topo, q string) { s.Queue = q; b.declare(s) }
	}
	unlimited := any(-1)
	if b.before(4, 3) {
		unlimited = 200
	}
	return slices.Concat(landing(), []patient{
		{"quorum as declared", declared(topology.Spec{}), none, ""},
		{"quorum as declared, ordered", declared(topology.Spec{SingleActiveConsumer: true}), ordered, ""},
		{"classic as declared", declared(topology.Spec{Type: topology.Classic}), none, ""},
		{"classic as declared, ordered", declared(topology.Spec{Type: topology.Classic, SingleActiveConsumer: true}),
			ordered, ""},
		{"many retries", declared(topology.Spec{DeliveryLimit: 2000}), inspect.Need{MaxRetries: 1000}, ""},
		{"the delivery limit of this version", on(quorum, argLimit, unlimited), none, ""},
		{"no dead letters wanted", on(quorum, argDLX, nil, "x-dead-letter-strategy", nil), inspect.Need{AllowDrop: true}, ""},
		{"all by policy, quorum", func(b topo, q string) {
			b.way(q, "fanout", "")
			b.policy(q, map[string]any{"dead-letter-exchange": q + ".dlx", "delivery-limit": 500,
				"dead-letter-strategy": "at-least-once", "overflow": "reject-publish"})
			b.queue(q, amqp.Table{"x-queue-type": "quorum"})
		}, none, ""},
		{"all by policy, classic", func(b topo, q string) {
			b.way(q, "fanout", "")
			b.policy(q, map[string]any{"dead-letter-exchange": q + ".dlx"})
			b.queue(q, nil)
		}, none, ""},
		{"the argument wins over the policy", func(b topo, q string) {
			on(quorum)(b, q)
			b.policy(q, map[string]any{"dead-letter-exchange": "elsewhere"})
		}, none, ""},
		{"argument and policy agree", func(b topo, q string) {
			on(quorum)(b, q)
			b.policy(q, map[string]any{"dead-letter-exchange": q + ".dlx"})
		}, none, ""},
		{"a foreign policy for others", func(b topo, q string) {
			on(classic)(b, q)
			b.policy(q+".others", map[string]any{"delivery-limit": 5})
		}, none, ""},
		{"full queue that refuses", on(quorum, "x-max-length", 100), none, ""},
		{"priorities without order", on(classic, "x-max-priority", 5), none, ""},
		{"consumers as they should be", consumed(10, false), none, ""},
		{"persistent messages", attended(holding(classic, amqp.Persistent, amqp.Persistent), 10, false, nil), none, ""},
		{"transient messages in a quorum queue", attended(holding(quorum, amqp.Transient), 10, false, nil), none, ""},
	})
}

// landing are ways of dead letters that end well.
func landing() []patient {
	none := inspect.Need{}
	return []patient{
		{"direct with its key", func(b topo, q string) {
			b.way(q, "direct", "this")
			b.queue(q, quorum(q, argDLK, "this"))
		}, none, ""},
		{"topic with a key that matches", func(b topo, q string) {
			b.way(q, "topic", "dead.#")
			b.queue(q, quorum(q, argDLK, "dead.orders.eu"))
		}, none, ""},
		{"topic for every key", func(b topo, q string) {
			b.way(q, "topic", "#")
			b.queue(q, quorum(q))
		}, none, ""},
		{"headers", func(b topo, q string) {
			b.way(q, "headers", "")
			b.queue(q, quorum(q))
		}, none, ""},
		{"default exchange", func(b topo, q string) {
			b.queue(q+".dlq", lettersTo())
			b.queue(q, quorum(q, argDLX, "", argDLK, q+".dlq"))
		}, none, ""},
		{"over another exchange", func(b topo, q string) {
			b.way(q, "fanout", "")
			b.exchange(q, "fanout")
			b.must(func(ch *amqp.Channel) error { return ch.ExchangeBind(q+".dlx", "", q, false, nil) })
			b.queue(q, quorum(q, argDLX, q))
		}, none, ""},
		{"two dead-letter queues", func(b topo, q string) {
			on(quorum)(b, q)
			second := b.name()
			b.queue(second, lettersTo())
			b.bind(second, "", q+".dlx")
		}, none, ""},
		{"dead-letter queue that is looked into often, by policy", func(b topo, q string) {
			b.policy(q+".dlq", map[string]any{"delivery-limit": enough})
			b.ends(q, amqp.Table{"x-queue-type": "quorum"})
		}, none, ""},
		{"over an alternate exchange", func(b topo, q string) {
			b.alternate(q)
			b.queue(q+".dlq", lettersTo())
			b.bind(q+".dlq", "", q)
			b.queue(q, quorum(q))
		}, none, ""},
	}
}
