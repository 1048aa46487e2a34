package integration

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/topology"
)

// TestGhostOfAConsumerWithAPriority is a test of the broker. It fails once RabbitMQ is repaired. The defect is why the
// doctor warns of consumers with an x-priority (consumer-priority), and why no consumer here sets one. On a
// single-active-consumer queue one consumer has unacked messages, and another one replaces it. Both end, the first one
// without settling. From RabbitMQ 4.3 on, the first one is then active again, though it is gone, and a third one gets
// nothing.
func TestGhostOfAConsumerWithAPriority(t *testing.T) {
	t.Parallel()
	const prefetch, messages = 5, 20
	since43 := !brokerVersion(t).Before(4, 3)
	for _, tt := range []struct {
		name     string
		priority int32
		stops    bool
	}{{"with a priority", 10, since43}, {"without", 0, false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn, queue := dialBroker(t), uniqueName(t, "ghost")
			need(t, topology.Declare(t.Context(), conn, topology.Spec{Queue: queue, SingleActiveConsumer: true}))
			publish(t, queue, "m", messages)

			first, held := subscribe(t, conn, queue, prefetch, nil)
			for range prefetch {
				<-held
			}
			second, taken := subscribe(t, conn, queue, prefetch, amqp.Table{broker.ArgPriority: tt.priority})
			need(t, first.Close())
			<-taken
			need(t, second.Close())

			_, last := subscribe(t, conn, queue, prefetch, nil)
			wait := time.Minute
			if tt.stops {
				wait = 5 * time.Second
			}
			select {
			case <-last:
				if tt.stops {
					t.Error("the queue delivers: this broker is repaired, so consumer-priority is a finding of older ones")
				}
			case <-time.After(wait):
				if !tt.stops {
					t.Errorf("no delivery in %v", wait)
				}
			}
		})
	}
}

// subscribe consumes from a queue on a channel of its own.
func subscribe(t *testing.T, conn *amqp.Connection, queue string, prefetch int, args amqp.Table) (*amqp.Channel,
	<-chan amqp.Delivery) {
	t.Helper()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Qos(prefetch, 0, false)
	}
	need(t, err)
	deliveries, err := ch.Consume(queue, "", false, false, false, false, args)
	need(t, err)
	return ch, deliveries
}
