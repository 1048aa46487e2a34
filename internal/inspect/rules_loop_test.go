package inspect

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// traced follows the dead letters of f through the known graph. An unknown node counts as an exchange with nothing
// bound to it, or as a queue that keeps its messages.
func traced(f Facts) Facts {
	known := Graph{Exchanges: map[string]Exchange{}, Queues: map[string]*broker.Queue{}, own: f.Known.own}
	if x, set := f.DeadLetterExchange(); set {
		known.Exchanges[x] = f.Exchange
	}
	for name, w := range f.Known.Exchanges {
		known.Exchanges[name] = w
	}
	for name, t := range f.Known.Queues {
		known.Queues[name] = t
	}
	for f.Route = known.Trace(f.Queue); len(f.Route.wanted) > 0; f.Route = known.Trace(f.Queue) {
		for _, n := range f.Route.wanted {
			switch {
			case n == Node{}:
				known.own = anyKey()
			case n.Exchange:
				known.Exchanges[n.Name] = Exchange{Exists: broker.Yes, Kind: "fanout", Bound: true}
			default:
				known.Queues[n.Name] = &broker.Queue{Name: n.Name, Declared: broker.Declared{Type: "quorum", Durable: true}}
			}
		}
	}
	f.Known = known
	return f
}

func toQueue(name, key string) broker.Binding {
	return broker.Binding{Destination: name, DestinationType: "queue", Key: key, Properties: "~"}
}

func toExchange(name, key string) broker.Binding {
	return broker.Binding{Destination: name, DestinationType: "exchange", Key: key}
}

// exchange is one that is known.
func exchange(name, kind string, bindings ...broker.Binding) func(*Facts) {
	return func(f *Facts) {
		f.knows().Exchanges[name] = Exchange{Exists: broker.Yes, Kind: kind, Bound: true, Bindings: bindings}
	}
}

// unroutable gives an exchange an alternate exchange.
func unroutable(from, to string) func(*Facts) {
	return func(f *Facts) {
		x := f.knows().Exchanges[from]
		x.Alternate = to
		f.Known.Exchanges[from] = x
	}
}

// keeps is a queue that is known, with pairs of arguments.
func keeps(name string, pairs ...any) func(*Facts) {
	return func(f *Facts) {
		args := amqp.Table{}
		for i := 0; i < len(pairs); i += 2 {
			args[pairs[i].(string)] = pairs[i+1]
		}
		f.knows().Queues[name] = &broker.Queue{Name: name, Declared: broker.Declared{Type: "classic", Durable: true,
			Args: args}}
	}
}

func published(keys ...keyPattern) func(*Facts) {
	return func(f *Facts) { f.knows().own = append(keySet{}, keys...) }
}

func (f *Facts) knows() *Graph {
	if f.Known.Exchanges == nil {
		f.Known = Graph{Exchanges: map[string]Exchange{}, Queues: map[string]*broker.Queue{}}
	}
	return &f.Known
}

func key(s string) keyPattern { return keyPattern{text: s} }

func topic(s string) keyPattern { return keyPattern{s, true} }

func TestLoopRule(t *testing.T) {
	const (
		ttl  = "x-message-ttl"
		loop = "error " + CodeLoop
		late = "warning " + "dead-letter-delay-loop"
	)
	byDefault := with(broker.ArgDeadLetterExchange, "")
	tests := []struct {
		name string
		f    []func(*Facts)
		want string // severity and code
		text string // in the finding
	}{
		{"a dead-letter queue", nil, "", ""},
		{"fanout, bound to both", changes(exchange("q.dlx", "fanout", toQueue("q.dlq", ""), toQueue("q", ""))), loop,
			`come back to the queue through exchange "q.dlx"`},
		{"fanout, bound to the queue alone", changes(exchange("q.dlx", "fanout", toQueue("q", ""))), loop,
			"reach no other queue"},
		{"direct, its key", changes(with(broker.ArgDeadLetterKey, "k"), exchange("q.dlx", "direct", toQueue("d", "k"),
			toQueue("q", "k"))), loop, `with the routing key "k"`},
		{"direct, another key", changes(with(broker.ArgDeadLetterKey, "k"), exchange("q.dlx", "direct", toQueue("d", "k"),
			toQueue("q", "x"))), "", ""},
		{"direct, the messages' own key", changes(published(key("q"), key("k")), exchange("q.dlx",
			"direct", toQueue("q", "k"))), loop, ""},
		{"direct, a key of no message", changes(published(key("q"), key("k")), exchange("q.dlx", "direct", toQueue("d", "k"),
			toQueue("q", "x"))), "", ""},
		{"direct, own keys not known", changes(exchange("q.dlx", "direct", toQueue("q", "x"))), loop, ""},
		{"direct, a key that a topic lets through", changes(published(key("q"), topic("eu.*")), exchange("q.dlx",
			"direct", toQueue("q", "eu.1"))), loop, ""},
		{"topic, its key", changes(with(broker.ArgDeadLetterKey, "eu.1"), exchange("q.dlx",
			"topic", toQueue("q", "eu.*"))), loop, ""},
		{"topic, another key", changes(with(broker.ArgDeadLetterKey, "us.1"), exchange("q.dlx", "topic", toQueue("d", "#"),
			toQueue("q", "eu.*"))), "", ""},
		{"topic, patterns that meet", changes(published(topic("*.1")), exchange("q.dlx", "topic", toQueue("q", "eu.#"))),
			loop, ""},
		{"topic, patterns that do not", changes(published(topic("*.1")), exchange("q.dlx", "topic", toQueue("d", "#"),
			toQueue("q", "eu.*.2"))), "", ""},
		{"headers that a message may have", changes(exchange("q.dlx", "headers", toQueue("d", ""), toQueue("q", ""))),
			loop, ""},
		{"an exchange of another type", changes(exchange("q.dlx", "x-random", toQueue("d", ""), toQueue("q", ""))), loop, ""},

		{"over another exchange", changes(exchange("q.dlx", "fanout", toExchange("in", "")), exchange("in",
			"fanout", toQueue("q", ""))), loop, `exchange "q.dlx", exchange "in"`},
		{"over another exchange, by its key", changes(with(broker.ArgDeadLetterKey, "a"), exchange("q.dlx",
			"fanout", toQueue("d", ""), toExchange("in", "")),
			exchange("in", "direct", toQueue("q", "b"))), "", ""},
		{"a key that a binding has chosen", changes(exchange("q.dlx", "direct", toExchange("in", "a")), exchange("in",
			"direct", toQueue("q", "b"))), "", ""},
		{"exchanges in a circle", changes(exchange("q.dlx", "fanout", toExchange("in", "")), exchange("in",
			"fanout", toExchange("q.dlx", ""), toQueue("d", ""))), "", ""},
		{"alternate exchange", changes(with(broker.ArgDeadLetterKey, "k"), exchange("q.dlx", "direct", toQueue("d", "x")),
			unroutable("q.dlx", "in"),
			exchange("in", "fanout", toQueue("q", ""))), loop, `exchange "in"`},
		{"alternate exchange that gets nothing", changes(with(broker.ArgDeadLetterKey, "k"), exchange("q.dlx",
			"direct", toQueue("d", "k")), unroutable("q.dlx", "in"),
			exchange("in", "fanout", toQueue("q", ""))), "", ""},
		{"alternate exchange for the keys left over", changes(published(key("a"), key("b")), exchange("q.dlx",
			"direct", toQueue("d", "a")), unroutable("q.dlx", "in"),
			exchange("in", "fanout", toQueue("q", ""))), loop, ""},
		{"alternate exchange, no key is left over", changes(published(key("a"), key("b")), exchange("q.dlx",
			"direct", toQueue("d", "a"), toQueue("d", "b")),
			unroutable("q.dlx", "in"), exchange("in", "fanout", toQueue("q", ""))), "", ""},

		{"default exchange, own name", changes(byDefault, with(broker.ArgDeadLetterKey, "q")), loop,
			"the default exchange"},
		{"default exchange, no key", changes(byDefault), loop, broker.ArgDeadLetterKey},
		{"default exchange, keys that are not its name", changes(byDefault, published(key("a"), key("b"))), "", ""},
		{"default exchange, another queue", changes(byDefault, with(broker.ArgDeadLetterKey, "d")), "", ""},

		{"delay", changes(exchange("q.dlx", "fanout", toQueue("w", "")), keeps("w", ttl, int64(5000),
			broker.ArgDeadLetterExchange, "", broker.ArgDeadLetterKey, "q")), late,
			`queue "w" (TTL 5000 ms), the default exchange`},
		{"delay by policy", changes(exchange("q.dlx", "fanout", toQueue("w", "")), keeps("w"), func(f *Facts) {
			f.Known.Queues["w"].Policy = amqp.Table{"message-ttl": int64(9), "dead-letter-exchange": "",
				"dead-letter-routing-key": "q"}
		}), late, `remove the dead-letter exchange of the queue "w"`},
		{"delay that keeps the key", changes(with(broker.ArgDeadLetterKey, "w"), byDefault,
			keeps("w", ttl, int64(5), broker.ArgDeadLetterExchange, "in"),
			exchange("in", "direct", toQueue("q", "q"))), "", ""},
		{"delay that ends elsewhere", changes(exchange("q.dlx", "fanout", toQueue("w", "")),
			keeps("w", ttl, int64(5), broker.ArgDeadLetterExchange, "", broker.ArgDeadLetterKey, "d")), "", ""},
		{"delay of nothing", changes(exchange("q.dlx", "fanout", toQueue("w", "")),
			keeps("w", ttl, int64(0), broker.ArgDeadLetterExchange, "", broker.ArgDeadLetterKey, "q")), loop,
			`remove the dead-letter exchange of the queue "w"`},
		{"a queue that dead-letters back", changes(exchange("q.dlx", "fanout", toQueue("w", "")),
			keeps("w", broker.ArgDeadLetterExchange, "", broker.ArgDeadLetterKey, "q")), loop, ""},
		{"two queues, one with a delay", changes(byDefault, with(broker.ArgDeadLetterKey, "v"),
			keeps("v", broker.ArgDeadLetterExchange, "", broker.ArgDeadLetterKey, "w"),
			keeps("w", ttl, int64(5), broker.ArgDeadLetterExchange, "", broker.ArgDeadLetterKey, "q")), late, ""},
		{"with and without a delay", changes(exchange("q.dlx", "fanout", toQueue("w", ""), toQueue("q", "")),
			keeps("w", ttl, int64(5), broker.ArgDeadLetterExchange, "q.dlx")), loop + ", " + late, ""},
		{"the queue between, itself", changes(with(ttl, int64(5)), byDefault, with(broker.ArgDeadLetterKey, "v"),
			keeps("v", broker.ArgDeadLetterExchange, "", broker.ArgDeadLetterKey, "q")), late, ""},
		{"a TTL of the queue, and straight back", changes(with(ttl, int64(5)), exchange("q.dlx", "fanout", toQueue("q", ""))),
			loop, ""},
		{"queues in a circle, not over the queue", changes(byDefault, with(broker.ArgDeadLetterKey, "v"),
			keeps("v", broker.ArgDeadLetterExchange, "", broker.ArgDeadLetterKey, "w"),
			keeps("w", broker.ArgDeadLetterExchange, "", broker.ArgDeadLetterKey, "v")), "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, need := range []Need{{Queue: "q"}, {Queue: "q", AllowDrop: true}} {
				f, rules := traced(changed(sound(), tt.f)), []Rule{loopRule}
				text := fmt.Sprint(Judge(rules, f, need))
				if got := judged(t, rules, f, need); got != tt.want || !strings.Contains(text, tt.text) {
					t.Errorf("got %q, want %q with %q: %s", got, tt.want, tt.text, text)
				}
			}
		})
	}
}

// A route that AMQP cannot show is no loop, and a node that is not looked up is reported.
func TestTraceSaysWhatIsNotSeen(t *testing.T) {
	f := sound()
	overAMQP(&f)
	if f = traced(f); len(f.Route.Loops) > 0 || len(f.Route.Unseen) != 1 || !strings.Contains(f.Route.Unseen[0], "q.dlx") {
		t.Errorf("bindings: %+v", f.Route)
	}
	f = sound()
	keeps("q.dlq")(&f)
	f.Known.Queues["q.dlq"].Unread = "denied"
	if f = traced(f); len(f.Route.Unseen) != 1 || !strings.Contains(f.Route.Unseen[0], "q.dlq") {
		t.Errorf("arguments: %+v", f.Route)
	}
	f = sound()
	with(broker.ArgDeadLetterExchange, "")(&f)
	with(broker.ArgDeadLetterKey, "")(&f)
	if f = traced(f); len(f.Route.wanted) > 0 {
		t.Errorf("a queue without a name is to be looked up: %+v", f.Route)
	}
}

// The trace of a route with very many branches ends.
func TestTraceIsBounded(t *testing.T) {
	f := sound()
	var all []broker.Binding
	for i := range 40 {
		all = append(all, toExchange(string(rune('A'+i)), "#."+string(rune('a'+i))+".#"))
	}
	for i := range 40 {
		exchange(string(rune('A'+i)), "topic", all...)(&f)
	}
	exchange("q.dlx", "topic", all...)(&f)
	if f = traced(f); len(f.Route.Loops)+len(f.Route.Landings) > 0 {
		t.Errorf("got %+v", f.Route)
	}
	all = nil // each filters out one key of many, so that every subset of them is a state
	var keys []keyPattern
	for i := range 30 {
		keys = append(keys, key(strings.Repeat("a.", i)+"b"))
	}
	for i := range 30 {
		all = append(all, toExchange("q.dlx", strings.Repeat("*.", i+1)+"#"),
			toExchange("q.dlx", strings.Repeat("*.", i)+"b"))
	}
	published(keys...)(&f)
	exchange("q.dlx", "topic", all...)(&f)
	for i := range 30 {
		exchange(string(rune('A'+i)), "topic", all...)(&f)
	}
	traced(f)
}
