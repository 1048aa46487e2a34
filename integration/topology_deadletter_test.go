package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/topology"
)

// rejectsLand rejects a message and finds it in the dead-letter queue.
func (b topo) rejectsLand(queue, exchange, key string) {
	b.t.Helper()
	b.publish(exchange, key, "poison")
	b.must(func(ch *amqp.Channel) error {
		deliveries, err := topoConsume(ch, queue)
		if err != nil {
			return err
		}
		d, err := topoNext(deliveries)
		if err != nil {
			return err
		}
		if err := d.Nack(false, false); err != nil {
			return err
		}
		dead := getOne(b.t, ch, queue+".dlq")
		if string(dead.Body) != "poison" || dead.RoutingKey != key || dead.DeliveryMode != amqp.Persistent {
			return fmt.Errorf("in the dead-letter queue: %q, key %q, mode %d", dead.Body, dead.RoutingKey, dead.DeliveryMode)
		}
		deaths, _ := dead.Headers["x-death"].([]any)
		if len(deaths) != 1 || deaths[0].(amqp.Table)["reason"] != "rejected" || deaths[0].(amqp.Table)["queue"] != queue {
			return fmt.Errorf("x-death: %v", dead.Headers["x-death"])
		}
		return dead.Nack(false, true)
	})
}

func TestTopologyByPolicy(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newTopo(t)
			q := b.name()
			b.exchange(q+".dlx", "fanout")
			b.queue(q+".dlq", amqp.Table{"x-queue-type": kind})
			b.bind(q+".dlq", "", q+".dlx")
			definition := map[string]any{"dead-letter-exchange": q + ".dlx"}
			if kind == "quorum" {
				definition["delivery-limit"] = 500
			}
			b.policy(q, definition)
			b.queue(q, amqp.Table{"x-queue-type": kind})

			need := topology.Need{Queue: q, MaxRetries: 3, Management: managementURL(t)}
			if err := topology.Check(t.Context(), b.conn, need); err != nil {
				t.Errorf("what the policy sets is not seen: %v", err)
			}
			b.rejectsLand(q, "", q)
			need.Management = ""
			var refused *topology.RefusedError
			if err := topology.Check(t.Context(), b.conn, need); !errors.As(err, &refused) || !strings.Contains(err.Error(),
				"give the URL of the management API (Check.Management)") {
				t.Errorf("over AMQP: got %v, want a refusal that names Management", err)
			}
		})
	}
}
