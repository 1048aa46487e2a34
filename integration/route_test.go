package integration

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/topology"
)

// TestRouteBreaksWhileConsuming breaks the dead-letter route of a classic queue under a consumer. A classic queue would
// lose each dead letter silently, so the consumer holds them until the route is whole.
func TestRouteBreaksWhileConsuming(t *testing.T) {
	t.Parallel()
	declare := func(t *testing.T, queue string) {
		t.Helper()
		need(t, topology.Declare(t.Context(), dialBroker(t),
			topology.Spec{Queue: queue, Type: topology.Classic}))
	}
	for _, tc := range []struct {
		name  string
		set   func(t *testing.T, queue string)
		wreck func(ch *amqp.Channel, queue string) error
		fix   func(t *testing.T, queue string)
	}{
		{
			"exchange deleted", declare,
			func(ch *amqp.Channel, queue string) error { return ch.ExchangeDelete(queue+".dlx", false, false) },
			declare,
		},
		{
			"dead-letter queue full",
			func(t *testing.T, queue string) {
				need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
					_, dlq := ch.QueueDeclare(queue+".dlq", true, false, false, false, amqp.Table{"x-max-length": int32(25),
						"x-overflow": "reject-publish"})
					_, source := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-dead-letter-exchange": "",
						"x-dead-letter-routing-key": queue + ".dlq"})
					return errors.Join(dlq, source)
				}))
			},
			func(ch *amqp.Channel, queue string) error {
				return confirmed(ch, "", queue+".dlq", slices.Repeat([]amqp.Publishing{{MessageId: "old"}}, 25)...)
			},
			func(t *testing.T, queue string) { getAll(t, queue+".dlq") },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			queue := uniqueName(t, "route")
			deleteLater(t, queue)
			tc.set(t, queue)
			var held, dead atomic.Int64
			consume := consumer.Consumer{
				Queue: queue, Counter: counters(t), Prefetch: 30,
				Handler: func(context.Context, amqp.Delivery) error { return consumer.Reject(errPoison) },
				Observer: observer(func(e consumer.Event) {
					switch refused := new(topology.RefusedError); {
					case e.Outcome == consumer.OutcomeDeadLetter:
						dead.Add(1)
					case e.Outcome == consumer.OutcomeHold && errors.As(e.Err, &refused):
						held.Add(1)
					}
				}),
			}
			stop := runConsumer(t, consume, dialer(t))
			eventually(t, "a consumer", func() bool { return consumers(t, queue) == 1 })
			need(t, onChannel(dialer(t), func(ch *amqp.Channel) error { return tc.wreck(ch, queue) }))
			time.Sleep(11 * time.Second) // for so long a route that was checked is believed
			publish(t, queue, "m", 20)
			eventually(t, "20 dead letters held", func() bool { return held.Load() == 20 })
			if n := dead.Load(); n != 0 {
				t.Errorf("%d were dead-lettered along a broken route", n)
			}
			tc.fix(t, queue)
			eventually(t, "20 dead letters", func() bool { return queueDepth(t, queue+".dlq") == 20 })
			stop()
		})
	}
}

// TestReplayingDeadLetterQueue: after a start of the broker a quorum queue takes nothing while it replays its log. A
// consumer that starts meanwhile holds its dead letters. The replay is that of a queue whose process is suspended.
func TestReplayingDeadLetterQueue(t *testing.T) {
	t.Parallel()
	node := privateBroker(t, servers.RabbitMQOptions{})
	dial := consumer.Dialer(node.URL, amqp.Config{})
	conn, err := dial(t.Context())
	need(t, err)
	defer conn.Close()
	need(t, topology.Declare(t.Context(), conn, topology.Spec{Queue: "orders", Type: topology.Classic}))
	eval := func(call string) {
		t.Helper()
		need(t, node.Ctl(t.Context(), "eval", "ok = sys:"+call+"('%2F_orders.dlq')."))
	}
	eval("suspend")
	ch, err := conn.Channel()
	need(t, err)
	need(t, confirmed(ch, "", "orders", amqp.Publishing{MessageId: "1"}))
	held, dead := make(chan error, 1), make(chan struct{})
	runConsumer(t, consumer.Consumer{
		Queue: "orders", Counter: counters(t),
		Handler: func(context.Context, amqp.Delivery) error { return consumer.Reject(errPoison) },
		Observer: observer(func(e consumer.Event) {
			switch e.Outcome {
			case consumer.OutcomeHold:
				held <- e.Err
			case consumer.OutcomeDeadLetter:
				close(dead)
			default:
			}
		}),
	}, dial)
	select {
	case err := <-held:
		if !errors.As(err, new(*topology.RefusedError)) {
			t.Error(err)
		}
	case <-dead:
		t.Error("it was dead-lettered to a queue that takes nothing")
	case <-time.After(time.Minute):
		t.Error("it was not held")
	}
	eval("resume")
	<-dead
	eventually(t, "the dead letter", func() bool {
		q, err := ch.QueueDeclarePassive("orders.dlq", true, false, false, false, nil)
		return err == nil && q.Messages == 1
	})
}
