package inspect

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// TestList: List passes over a queue that takes dead letters of others, unless it has a dead-letter exchange itself. It
// lists a queue to which a delay queue returns messages, also if a program declared the delay queue.
func TestList(t *testing.T) {
	leads := func(from, to string) Exchange {
		return Exchange{Exists: broker.Yes, Kind: "fanout", Bound: true, Bindings: []broker.Binding{
			{Source: from, Destination: to, DestinationType: "queue"}}}
	}
	g := Graph{Exchanges: map[string]Exchange{"x": leads("x", "orders.dlq"), "z": leads("z", "delayed"),
		"strikes.delay": leads("strikes.delay", "plain"), "w": leads("w", "worked"),
		"shared": leads("shared", "shared.hash2"), "gone.dlx": leads("gone.dlx", "gone.dlq")}}.AllKeys()
	g.Queues = map[string]*broker.Queue{
		"mine": {Exclusive: true}, "log": {Declared: broker.Declared{Type: "stream"}}, "orders.dlq": {}, "plain": {},
		"delayed": {Policy: amqp.Table{"dead-letter-exchange": "y"}}, "strikes.delay.lost": {}, "bare": {}, "bare.dlq": {},
		"gone.dlq": {}, "other.dlq": {},
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
		"listed": {l.Queues, "bare delayed expiring late orders other.dlq own.wait plain shared shared.2 strikes.delay.7h " +
			"worked"},
		"passed over": {l.PassedOver, "bare.dlq expiring.dlq gone.dlq log mine orders.dlq strikes.delay.1h " +
			"strikes.delay.lost"},
		"the sources of orders.dlq": {l.DeadLetters["orders.dlq"], "orders shared shared.2 strikes.delay.7h"},
		"the sources of gone.dlq":   {l.DeadLetters["gone.dlq"], "gone"},
		"the sources of bare.dlq":   {l.DeadLetters["bare.dlq"], "bare"},
		"the sources of delayed":    {l.DeadLetters["delayed"], ""},
	} {
		if got := strings.Join(of.got, " "); got != of.want {
			t.Errorf("%s: got %q, want %q", what, got, of.want)
		}
	}
	if !l.PassesOver("log") || l.PassesOver("orders") {
		t.Error("PassesOver says the opposite")
	}
}
