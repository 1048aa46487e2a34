package integration

import (
	"errors"
	"fmt"
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
	for i := range 5 {
		b.must(func(ch *amqp.Channel) error {
			d, ok := b.get(ch, q)
			if !ok {
				return fmt.Errorf("gone after %d deliveries", i)
			}
			return d.Reject(true)
		})
	}
	b.must(func(ch *amqp.Channel) error {
		if _, ok := b.get(ch, q+".dlq"); !ok {
			return errors.New("not dead-lettered after the fifth return")
		}
		return nil
	})
	b.want("no room", topology.Need{Queue: q, MaxRetries: 1}, "error delivery-limit-low", "warning bindings-unknown")
	b.want("little room", topology.Need{Queue: q, MaxRetries: -1}, "warning delivery-limit-tight",
		"warning bindings-unknown")
}
