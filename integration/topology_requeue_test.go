package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/topology"
)

// The rules must predict the position to which the broker requeues a message.
func TestTopologyRequeuePosition(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	const head, tail, gone = "1 2 3", "2 3 1", "2 3"
	byVersion := func(v3, v40, v43 string) string {
		switch {
		case b.before(4, 0):
			return v3
		case b.before(4, 3):
			return v40
		}
		return v43
	}
	tests := []struct {
		name string
		args amqp.Table
		want string
	}{
		{"classic", amqp.Table{"x-queue-type": "classic"}, head},
		{"classic, single active consumer", amqp.Table{"x-queue-type": "classic", "x-single-active-consumer": true}, head},
		{"quorum, no limit", amqp.Table{"x-queue-type": "quorum"}, byVersion(tail, head, head)},
		{"quorum, limit 50", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 50}, head},
		{"quorum, limit 50, single active consumer", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 50,
			"x-single-active-consumer": true}, head},
		{"quorum, limit -1", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": -1}, byVersion(gone, tail, head)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := topo{t, b.conn}
			q := b.name()
			b.queue(q, tt.args)
			b.publish("", q, "1", "2", "3")
			b.must(func(ch *amqp.Channel) error {
				queue, err := topoConsume(ch, q)
				if err != nil {
					return err
				}
				d, err := topoNext(queue)
				if err != nil {
					return err
				}
				if err := d.Nack(false, true); err != nil {
					return err
				}
				var got []string
				for len(got) < len(strings.Fields(tt.want)) {
					d, err := topoNext(queue)
					if err != nil {
						return fmt.Errorf("after %q: %w", got, err)
					}
					got = append(got, string(d.Body))
					if err := d.Ack(false); err != nil {
						return err
					}
				}
				b.publish("", q, "end") // shows that nothing else was left
				if d, err := topoNext(queue); err != nil || string(d.Body) != "end" {
					t.Errorf("after %q came %q, %v", got, d.Body, err)
				}
				if order := strings.Join(got, " "); order != tt.want {
					t.Errorf("after a requeue of 1: %s, want %s", order, tt.want)
				}
				return nil
			})
			refused := slices.ContainsFunc(b.codes(topology.Need{Queue: q, MaxRetries: 3, AllowDrop: true}),
				func(code string) bool {
					return code == "error requeue-to-tail" || code == "error requeue-discards"
				})
			if refused != (tt.want != head) {
				t.Errorf("refused: %v, and a requeued message goes to: %s", refused, tt.want)
			}
		})
	}
}

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
