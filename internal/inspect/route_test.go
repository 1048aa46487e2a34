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
	known := Graph{Exchanges: map[string]Exchange{}, Queues: map[string]*broker.Queue{}}
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
			if n.Exchange {
				known.Exchanges[n.Name] = Exchange{Exists: broker.Yes, Kind: "fanout", Bound: true}
			} else {
				known.Queues[n.Name] = &broker.Queue{Name: n.Name, Declared: broker.Declared{Type: "quorum", Durable: true}}
			}
		}
	}
	f.Known = known
	return f
}

func toQueue(name, key string) broker.Binding {
	return broker.Binding{Destination: name, DestinationType: "queue", Key: key}
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

// keeps is a queue that is known, with the arguments that the words set.
func keeps(name string, words ...string) func(*Facts) {
	return func(f *Facts) {
		q := broker.Queue{Name: name, Declared: broker.Declared{Type: "classic", Durable: true, Args: amqp.Table{}}}
		set(&q, strings.Join(words, " "))
		f.knows().Queues[name] = &q
	}
}

func (f *Facts) knows() *Graph {
	if f.Known.Exchanges == nil {
		f.Known = Graph{Exchanges: map[string]Exchange{}, Queues: map[string]*broker.Queue{}}
	}
	return &f.Known
}

func TestLoopRule(t *testing.T) {
	const (
		loop = "error " + CodeLoop
		late = "warning " + "dead-letter-delay-loop"
	)
	const defaultExchange = "x-dead-letter-exchange="
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
			`come back to the queue through exchange "q.dlx"`},
		{"direct, its key", changes("x-dead-letter-routing-key=k", exchange("q.dlx", "direct", toQueue("d", "k"), toQueue("q",
			"k"))), loop, `with the routing key "k"`},
		{"direct, another key", changes("x-dead-letter-routing-key=k", exchange("q.dlx", "direct", toQueue("d", "k"),
			toQueue("q", "x"))), "", ""},
		{"direct, the key is not known", changes(exchange("q.dlx", "direct", toQueue("q", "x"))), loop, ""},
		{"topic, its key", changes("x-dead-letter-routing-key=eu.1", exchange("q.dlx", "topic", toQueue("q", "eu.*"))), loop,
			""},
		{"topic, another key", changes("x-dead-letter-routing-key=us.1", exchange("q.dlx", "topic", toQueue("d", "#"),
			toQueue("q", "eu.*"))), "", ""},
		{"topic, the key is not known", changes(exchange("q.dlx", "topic", toQueue("d", "#"), toQueue("q", "eu.*"))), loop,
			""},
		{"headers that a message may have", changes(exchange("q.dlx", "headers", toQueue("d", ""), toQueue("q", ""))), loop,
			""},
		{"an exchange of another type", changes(exchange("q.dlx", "x-random", toQueue("d", ""), toQueue("q", ""))), loop, ""},

		{"over another exchange", changes(exchange("q.dlx", "fanout", toExchange("in", "")), exchange("in", "fanout",
			toQueue("q", ""))), loop, `exchange "q.dlx", exchange "in"`},
		{"over another exchange, by its key", changes("x-dead-letter-routing-key=a", exchange("q.dlx", "fanout", toQueue("d",
			""), toExchange("in", "")), exchange("in", "direct", toQueue("q", "b"))), "", ""},
		{"a key that a binding has chosen", changes(exchange("q.dlx", "direct", toExchange("in", "a")), exchange("in",
			"direct", toQueue("q", "b"))), "", ""},
		{"exchanges in a circle", changes(exchange("q.dlx", "fanout", toExchange("in", "")), exchange("in", "fanout",
			toExchange("q.dlx", ""), toQueue("d", ""))), "", ""},
		{"alternate exchange", changes("x-dead-letter-routing-key=k", exchange("q.dlx", "direct", toQueue("d", "x")),
			unroutable("q.dlx", "in"), exchange("in", "fanout", toQueue("q", ""))), loop, `exchange "in"`},
		{"alternate exchange that gets nothing", changes("x-dead-letter-routing-key=k", exchange("q.dlx", "direct",
			toQueue("d", "k")), unroutable("q.dlx", "in"), exchange("in", "fanout", toQueue("q", ""))), "", ""},
		{"alternate exchange for the keys left over", changes(exchange("q.dlx", "direct", toQueue("d", "a")),
			unroutable("q.dlx", "in"), exchange("in", "fanout", toQueue("q", ""))), loop, ""},

		{"default exchange, own name", changes(defaultExchange, "x-dead-letter-routing-key=q"), loop, "the default exchange"},
		{"default exchange, no key", changes(defaultExchange), loop, broker.ArgDeadLetterKey},
		{"default exchange, another queue", changes(defaultExchange, "x-dead-letter-routing-key=d"), "", ""},

		{"delay", changes(exchange("q.dlx", "fanout", toQueue("w", "")), keeps("w", "x-message-ttl=5000", lettersTo("q"))),
			late, `queue "w" (TTL 5000 ms), the default exchange`},
		{"delay by policy", changes(exchange("q.dlx", "fanout", toQueue("w", "")), keeps("w"), func(f *Facts) {
			f.Known.Queues["w"].Policy = amqp.Table{"message-ttl": int64(9), "dead-letter-exchange": "",
				"dead-letter-routing-key": "q"}
		}), late, `remove the dead-letter exchange of the queue "w"`},
		{"delay that keeps the key", changes("x-dead-letter-routing-key=w", defaultExchange, keeps("w",
			"x-message-ttl=5 x-dead-letter-exchange=in"), exchange("in", "direct", toQueue("q", "q"))), "", ""},
		{"delay that ends elsewhere", changes(exchange("q.dlx", "fanout", toQueue("w", "")), keeps("w", "x-message-ttl=5",
			lettersTo("d"))), "", ""},
		{"delay of nothing", changes(exchange("q.dlx", "fanout", toQueue("w", "")), keeps("w", "x-message-ttl=0",
			lettersTo("q"))), loop, `remove the dead-letter exchange of the queue "w"`},
		{"a queue that dead-letters back", changes(exchange("q.dlx", "fanout", toQueue("w", "")), keeps("w", lettersTo("q"))),
			loop, ""},
		{"two queues, one with a delay", changes(defaultExchange, "x-dead-letter-routing-key=v", keeps("v", lettersTo("w")),
			keeps("w", "x-message-ttl=5", lettersTo("q"))), late, ""},
		{"with and without a delay", changes(exchange("q.dlx", "fanout", toQueue("w", ""), toQueue("q", "")), keeps("w",
			"x-message-ttl=5 x-dead-letter-exchange=q.dlx")), loop + ", " + late, ""},
		{"the queue between, itself", changes("x-message-ttl=5", defaultExchange, "x-dead-letter-routing-key=v", keeps("v",
			lettersTo("q"))), late, ""},
		{"a TTL of the queue, and straight back", changes("x-message-ttl=5", exchange("q.dlx", "fanout", toQueue("q", ""))),
			loop, ""},
		{"a TTL of the queue, back over another queue, and over more exchanges", changes("x-message-ttl=5", exchange("q.dlx",
			"fanout", toQueue("w", ""), toExchange("a", "")), keeps("w", "x-dead-letter-exchange=d"), exchange("d", "fanout",
			toQueue("q", "")), exchange("a", "fanout", toExchange("b", "")), exchange("b", "fanout", toExchange("c", "")),
			exchange("c", "fanout", toQueue("q", ""))), loop + ", " + late, ""},
		{"queues in a circle, not over the queue", changes(defaultExchange, "x-dead-letter-routing-key=v", keeps("v",
			lettersTo("w")), keeps("w", lettersTo("v"))), "", ""},
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
	set(&f.Queue, "x-dead-letter-exchange= x-dead-letter-routing-key=")
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
}

// TestMatches compares matches with its definition: all short patterns and keys are tried.
func TestMatches(t *testing.T) {
	all := func(most int, words ...string) []string {
		out := []string{""}
		for begin, n := 0, 1; n <= most; n++ {
			end := len(out)
			for _, p := range out[begin:end] {
				for _, w := range words {
					out = append(out, strings.TrimPrefix(p+"."+w, "."))
				}
			}
			begin = end
		}
		return out
	}
	keys := all(5, "a", "b", "c")
	for _, pattern := range all(3, "a", "b", "*", "#")[1:] {
		for _, key := range keys {
			if got, want := matches(pattern, key), fits(strings.Split(pattern, "."), split(key)); got != want {
				t.Fatalf("%q and %q: got %v, want %v", pattern, key, got, want)
			}
		}
	}
	if matches(strings.Repeat("#.", 200)+"x", strings.Repeat("a.", 200)+"y") {
		t.Error("the key does not end in x")
	}
}

// fits reports whether a topic exchange routes a key to a binding.
func fits(pattern, key []string) bool {
	switch {
	case len(pattern) == 0:
		return len(key) == 0
	case pattern[0] == "#":
		return fits(pattern[1:], key) || len(key) > 0 && fits(pattern, key[1:])
	}
	return len(key) > 0 && (pattern[0] == "*" || pattern[0] == key[0]) && fits(pattern[1:], key[1:])
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ".")
}

// TestList: List passes over a queue that takes dead letters of others, unless it has a dead-letter exchange itself. It
// lists a queue to which a delay queue returns messages, also if a program declared the delay queue.
func TestList(t *testing.T) {
	leads := func(from, to string) Exchange {
		return Exchange{Exists: broker.Yes, Kind: "fanout", Bound: true, Bindings: []broker.Binding{
			{Source: from, Destination: to, DestinationType: "queue"}}}
	}
	g := NewGraph(map[string]Exchange{"x": leads("x", "orders.dlq"), "z": leads("z", "delayed"),
		"strikes.delay": leads("strikes.delay", "plain"), "w": leads("w", "worked"),
		"shared": leads("shared", "shared.hash2"), "gone.dlx": leads("gone.dlx", "gone.dlq"),
		"emptied": leads("emptied", "emptied.hash2"), "emptied.dlx": leads("emptied.dlx", "emptied.dlq")}, nil)
	g.Queues = map[string]*broker.Queue{
		"mine": {Exclusive: true}, "log": {Declared: broker.Declared{Type: "stream"}}, "orders.dlq": {}, "plain": {},
		"delayed": {Policy: amqp.Table{"dead-letter-exchange": "y"}}, "strikes.delay.lost": {}, "bare": {}, "bare.dlq": {},
		"gone.dlq": {}, "other.dlq": {}, "emptied.dlq": {}, "strikes.probe.1": {},
		"worked": {Consumed: true}, "expiring.dlq": {},
	}
	for name, exchange := range map[string]string{"orders": "x", "late": "z", "shared.0": "x", "shared.1": "x",
		"shared.2": "x", "strikes.delay.1h": "strikes.delay", "strikes.delay.7h": "x"} {
		g.Queues[name] = &broker.Queue{Declared: broker.Declared{Args: amqp.Table{broker.ArgDeadLetterExchange: exchange}}}
	}
	for name, exchange := range map[string]string{"own.wait": "w", "expiring": ""} {
		g.Queues[name] = &broker.Queue{Declared: broker.Declared{Args: amqp.Table{broker.ArgDeadLetterExchange: exchange,
			broker.ArgDeadLetterKey: "expiring.dlq", "x-message-ttl": int64(1000)}}}
	}
	for name, q := range g.Queues {
		q.Name = name
	}
	l := g.List()
	for what, of := range map[string]struct {
		got  []string
		want string
	}{
		"listed": {l.Queues, "bare delayed emptied expiring late orders other.dlq own.wait plain shared shared.2 " +
			"strikes.delay.7h worked"},
		"passed over": {l.PassedOver, "bare.dlq emptied.dlq expiring.dlq gone.dlq log mine orders.dlq strikes.delay.1h " +
			"strikes.delay.lost strikes.probe.1"},
		"the sources of orders.dlq":  {l.DeadLetters["orders.dlq"], "orders shared shared.2 strikes.delay.7h"},
		"the sources of gone.dlq":    {l.DeadLetters["gone.dlq"], "gone"},
		"the sources of emptied.dlq": {l.DeadLetters["emptied.dlq"], "emptied"},
		"the sources of bare.dlq":    {l.DeadLetters["bare.dlq"], "bare"},
		"the sources of delayed":     {l.DeadLetters["delayed"], ""},
	} {
		if got := strings.Join(of.got, " "); got != of.want {
			t.Errorf("%s: got %q, want %q", what, got, of.want)
		}
	}
	if !l.PassesOver("log") || l.PassesOver("orders") {
		t.Error("PassesOver says the opposite")
	}
}
