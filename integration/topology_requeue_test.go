package integration

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/topology"
)

// topoConsume has one message at a time delivered. A quorum queue with a single
// active consumer refuses basic.get.
func topoConsume(ch *amqp.Channel, queue string) (<-chan amqp.Delivery, error) {
	if err := ch.Qos(1, 0, false); err != nil {
		return nil, err
	}
	return ch.Consume(queue, "", false, false, false, false, nil)
}

func topoNext(queue <-chan amqp.Delivery) (amqp.Delivery, error) {
	select {
	case d, ok := <-queue:
		if !ok {
			return d, errors.New("the channel was closed")
		}
		return d, nil
	case <-time.After(time.Minute):
		return amqp.Delivery{}, errors.New("no delivery within a minute")
	}
}

// A limit of N lets a message be delivered N+1 times.
func TestTopologyDeliveryLimit(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.declare(topology.Spec{Queue: q, DeliveryLimit: 4})
	b.publish("", q, "poison")
	for range 5 {
		b.reject(q, true)
	}
	b.reject(q+".dlq", true)
	b.want("no room", topology.Need{Queue: q, MaxRetries: 1}, "error delivery-limit-low", "warning bindings-unknown")
	b.want("little room", topology.Need{Queue: q, MaxRetries: -1}, "warning delivery-limit-tight",
		"warning bindings-unknown")
}
