package integration

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// dependency is the service that the handlers of a fleet call. Poison fails with it and without it.
type dependency struct {
	away atomic.Bool

	mu        sync.Mutex
	back      time.Time // when it came back
	succeeded map[string]time.Time
	attempts  int
}

var errAway = errors.New("dial tcp 10.0.0.7:5432: connect: connection refused")

func (x *dependency) handle(_ context.Context, d amqp.Delivery) error {
	time.Sleep(10 * time.Millisecond) // the work
	x.mu.Lock()
	defer x.mu.Unlock()
	x.attempts++
	switch {
	case x.away.Load():
		return errAway
	case strings.HasPrefix(d.MessageId, "poison"):
		return errPoison
	}
	x.succeeded[d.MessageId] = time.Now()
	return nil
}

// done returns how many good messages have succeeded.
func (x *dependency) done() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.succeeded)
}

// TestOutage: a service that three consumers need is away, and 40 messages that always fail fill all they have
// prefetched. No good message is dead-lettered, every other one after exactly four counted attempts, and all goes on
// once the service is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	const poison, good, away = 40, 500, 7 * time.Second
	eachType(t, func(t *testing.T, queue string) {
		publish(t, queue, "poison", poison)
		publish(t, queue, "good", good)
		x := &dependency{succeeded: map[string]time.Time{}}
		x.away.Store(true)
		c := counters(t)
		for range 3 {
			start(t, consumer.Consumer{Queue: queue, Counter: c, Prefetch: 10, Breaker: 8, Handler: x.handle})
		}
		awaitOpen(t, c, queue)
		time.Sleep(away) // the outage
		x.mu.Lock()
		during := x.attempts
		x.back = time.Now()
		x.away.Store(false)
		x.mu.Unlock()

		deadline := time.Now().Add(time.Minute)
		for (x.done() < good || queueDepth(t, queue+".dlq") < poison) && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
		}
		first := time.Hour
		x.mu.Lock()
		for _, at := range x.succeeded {
			first = min(first, at.Sub(x.back))
		}
		x.mu.Unlock()
		t.Logf("%d attempts while it was away; the first success %v after it came back; all %v after it", during,
			first.Round(10*time.Millisecond), time.Since(x.back).Round(10*time.Millisecond))
		if n := x.done(); n != good {
			t.Errorf("%d of %d good messages succeeded", n, good)
		}
		if first > 15*time.Second {
			t.Errorf("the first success came %v after the dependency", first)
		}
		dead := ids(getAll(t, queue+".dlq"))
		if len(dead) != poison {
			t.Errorf("%d dead letters, want %d", len(dead), poison)
		}
		for _, id := range dead {
			if !strings.HasPrefix(id, "poison") {
				t.Errorf("%s is dead-lettered", id)
			}
			if r := one(t, c, queue, id); r.Counted() != 4 {
				t.Errorf("%s: %d attempts were counted", id, r.Counted())
			}
		}
	})
}

// awaitOpen waits until the breaker of a queue is open.
func awaitOpen(t *testing.T, c *counter.Counter, queue string) {
	t.Helper()
	eventually(t, "an open breaker of "+queue, func() bool {
		now, err := c.Admin().State(t.Context(), "/", queue)
		need(t, err)
		return !now.Breaker.Open.IsZero()
	})
}

// TestOpenBreakerReturnsDeliveries is why a queue that one message holds is paused, and its breaker stays closed: an
// open one keeps deliveries unacked, and returns them after half the consumer timeout. A broker before 4.3 counts each
// return, and dead-letters messages at its delivery limit. A pause ends the session once, and nothing is delivered
// meanwhile.
func TestOpenBreakerReturnsDeliveries(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	counts := brokerVersion(t).Before(4, 3)
	for held, name := range map[bool]string{false: "an open breaker", true: "a held queue"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue, ch := uniqueName(t, "returns"), pubChannel(t)
			deleteLater(t, queue)
			_, err := ch.QueueDeclare(queue+".dlq", true, false, false, false, nil)
			need(t, err)
			_, err = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum",
				"x-delivery-limit": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue + ".dlq"})
			need(t, err)
			publish(t, queue, "m", 3)
			c := counters(t)
			of := consumer.Consumer{Queue: queue, Counter: c, ConsumerTimeout: time.Minute, HandlerTimeout: time.Second,
				Breaker: 2, MaxRetries: 50, Handler: func(context.Context, amqp.Delivery) error { return errAway },
				Check: consumer.Check{Instead: func(context.Context, *amqp.Connection) error { return nil }}}
			if held {
				of.Breaker, of.MaxRetries, of.HoldLanes, of.Ordered = 0, -1, true, true
			}
			start(t, of)
			deadline := time.Now().Add(100 * time.Second) // three returns
			for queueDepth(t, queue+".dlq") == 0 && time.Now().Before(deadline) {
				time.Sleep(50 * time.Millisecond)
			}
			dead := getAll(t, queue+".dlq")
			if (len(dead) > 0) != (counts && !held) || held && queueDepth(t, queue) != 3 {
				t.Errorf("%d dead letters, and %d messages ready in the queue", len(dead), queueDepth(t, queue))
			}
			for _, d := range dead {
				if r := one(t, c, queue, d.MessageId); r.State != counter.StateLive {
					t.Errorf("%s is %v in the store", d.MessageId, r.State)
				}
			}
		})
	}
}

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
