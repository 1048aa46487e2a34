package console

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
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
