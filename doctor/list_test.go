package doctor

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

func TestSortOut(t *testing.T) {
	to := broker.Declared{Args: amqp.Table{broker.ArgDeadLetterExchange: "x"}}
	got := sortOut([]broker.Queue{
		{Name: "orders", Declared: to}, {Name: "orders.dlq"}, {Name: "bare"},
		{Name: "mine", Exclusive: true}, {Name: "log", Declared: broker.Declared{Type: "stream"}},
		{Name: "delayed", Policy: amqp.Table{"dead-letter-exchange": "y"}},
		{Name: "shared.0", Declared: to}, {Name: "shared.1", Declared: to}, {Name: "shared.2", Declared: to},
		{Name: "strikes.delay.1h", Declared: to}, {Name: "strikes.delay.lost"}, {Name: "strikes.delay.7h", Declared: to},
	}, map[string][]string{"orders.dlq": {"orders", "shared.1", "shared.0"}, "delayed": {"bare"}},
		map[string][]string{"shared": {"shared.0", "shared.1"}})
	if sources := strings.Join(got.DeadLetters["orders.dlq"], " "); sources != "orders shared" {
		t.Errorf("the sources of orders.dlq: %s", sources)
	}
	q, p := strings.Join(got.Queues, " "), strings.Join(got.PassedOver, " ")
	if q != "bare delayed orders shared shared.2 strikes.delay.7h" ||
		p != "log mine orders.dlq strikes.delay.1h strikes.delay.lost" {
		t.Errorf("got %q, passed over %q", q, p)
	}
}

// A bucket expires its messages and dead-letters them to a work queue by intent.
func TestRulesForTheDelayQueues(t *testing.T) {
	for _, b := range broker.Buckets {
		if len(inspect.RulesFor(b.Name)) > 0 {
			t.Errorf("%s is judged as a queue that consumers retry from", b.Name)
		}
	}
	if len(inspect.RulesFor(broker.DelayLost)) > 0 || len(inspect.RulesFor("orders")) == 0 {
		t.Error("wrong rules for other queues")
	}
}

func TestSupport(t *testing.T) {
	of := func(product, release string) []inspect.Finding {
		return Broker(&amqp.Connection{Properties: amqp.Table{"product": product, "version": release}})
	}
	for release, want := range map[string]int{"3.10.8": 1, "3.13.7": 1, "4.2.5": 1, "4.3.6": 0, "5.0.0": 0, "": 0} {
		if got := of("RabbitMQ", release); len(got) != want {
			t.Errorf("%q: %v", release, got)
		}
	}
	if got := of("Hare", "1.0"); len(got) > 0 {
		t.Errorf("another product: %v", got)
	}
}
