package doctor

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

// A delay queue expires its messages and dead-letters them to a work queue by intent.
func TestRulesForTheDelayQueues(t *testing.T) {
	for _, b := range broker.DelayQueues {
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
