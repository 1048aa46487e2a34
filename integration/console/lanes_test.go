package console

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

var (
	manyLanes = flag.Int("lanes", 300, "blocked lanes of TestManyLanes; 10000 is its full size")
	laneGoal  = flag.Duration("lanes.goal", 0, "fail where TestManyLanes is slower than this; 0: it only prints the times")
)

// booking is a message of a lane.
func booking(id, lane string, cause counter.Cause) publisher.Message {
	m := order(id, cause, "the account is locked", "{}")
	m.Headers["account"] = lane
	return m
}

func accountOf(d amqp.Delivery) string { return fmt.Sprint(d.Headers["account"]) }

// lanes is a consumer that holds lanes.
func lanes(queue string, handler func(context.Context, amqp.Delivery) error) consumer.Consumer {
	return consumer.Consumer{Queue: queue, Ordered: true, HoldLanes: true, Lane: accountOf, Concurrency: 8, MaxRetries: -1,
		Handler: handler}
}

// hold has dead letters hold two lanes of a queue, and an exhausted message hold a queue without lanes.
func (p *plant) hold() {
	p.t.Helper()
	p.declare(topology.Spec{Queue: "bookings", SingleActiveConsumer: true}, topology.Spec{Queue: "ledger",
		SingleActiveConsumer: true})
	p.publish("bookings", booking("booking-310", "DE-2210", counter.CauseRejected), booking("booking-311", "DE-2210", ""),
		booking("booking-312", "DE-2210", ""),
		booking("booking-313", "FR-0417", counter.CauseRejected))
	p.consume(lanes("bookings", handle))
	p.publish("ledger", booking("entry-88", "", counter.CauseRejected), booking("entry-89", "", ""))
	p.consume(consumer.Consumer{Queue: "ledger", Ordered: true, HoldLanes: true, MaxRetries: -1})
	proctest.Eventually(p.t, patience, "two blocked lanes", func() bool { return p.depth("bookings.dlq") == 4 })
	proctest.Eventually(p.t, patience, "a message that holds its queue", func() bool {
		now, err := p.counter.Admin().State(p.t.Context(), p.vhost, "ledger")
		return err == nil && now.Paused != nil && now.Paused.Holding != nil
	})
}

// TestManyLanes measures the console's pages and the commands that show blocked lanes.
func TestManyLanes(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "bookings", SingleActiveConsumer: true})
	var msgs []publisher.Message
	for i := range 2 * *manyLanes {
		lane := i % *manyLanes
		msgs = append(msgs, booking(fmt.Sprint("b", i), fmt.Sprint("account-", lane), counter.CauseRejected))
	}
	p.publish("bookings", msgs...)
	c := lanes("bookings", handle)
	c.Concurrency, c.Prefetch = 64, 1000
	stop := p.consume(c)
	proctest.Eventually(t, 5*time.Minute, "the lanes to be blocked", func() bool {
		return p.depth("bookings.dlq") == len(msgs)
	})
	stop()
	s := p.serve(nil)
	b := newTab(t)
	slow := func(what string, took time.Duration) {
		fmt.Fprintf(os.Stdout, "%-28s %.0f ms with %d blocked lanes\n", what, float64(took)/1e6, *manyLanes)
		if *laneGoal > 0 && took > *laneGoal {
			t.Errorf("%s took %s; the goal is %s", what, took, *laneGoal)
		}
	}
	b.visit(s.at("queue", "queue", "bookings"))
	b.sees("account-")
	painted := b.measure(s.at("queue", "queue", "bookings")).Painted
	slow("page queue", time.Duration(painted*float64(time.Millisecond)))
	slow("lane list", p.time("lane", "list", "bookings"))
	slow("status", p.time("status", "bookings"))
	slow("status of all queues", p.time("status"))
}
