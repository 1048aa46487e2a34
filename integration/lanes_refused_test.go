package integration

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/topology"
)

// TestALaneBlockedDuringASession has a lane blocked while a consumer without HoldLanes consumes. Its session drains
// within two seconds and is refused, and no message that is published then is handled, until the lane is released.
func TestALaneBlockedDuringASession(t *testing.T) {
	t.Parallel()
	queue := declaredAs(t, topology.Spec{Type: topology.Quorum, SingleActiveConsumer: true})
	counts := counters(t)
	handled := make(chan string, 10)
	c := consumer.Consumer{
		Queue: queue, Ordered: true, Counter: counts, Lane: laneOf,
		Handler: func(_ context.Context, d amqp.Delivery) error { handled <- d.MessageId; return nil },
	}
	runConsumer(t, c, dialer(t), consumer.ErrUncleanStop)
	publishBodies(t, queue, 0, 1, func(int) string { return "x lane" })
	<-handled

	step := counter.LaneStep{Message: counter.Message{VHost: "/", Queue: queue, ID: "earlier"}, Lane: "lane",
		Act: counter.LaneBlock, Owner: "other", Number: 1}
	_, err := counts.OwnLanes(t.Context(), "/", queue, "", step.Owner)
	need(t, err)
	blocked, err := counts.StepLane(t.Context(), step)
	need(t, err)
	proctest.Eventually(t, time.Minute, "that no consumer is attached", func() bool { return consumers(t, queue) == 0 })
	publishBodies(t, queue, 1, 2, func(int) string { return "x lane" })
	proctest.Eventually(t, time.Minute, "a message that waits", func() bool { return queueDepth(t, queue) == 1 })
	select {
	case id := <-handled:
		t.Errorf("%s overtook the dead letter", id)
	default:
	}
	released, err := counts.Admin().DropPositions(t.Context(), "/", queue, "lane", []counter.Position{blocked.Position})
	if err != nil || !released {
		t.Fatal(released, err)
	}
	select {
	case id := <-handled:
		if id != "1" {
			t.Errorf("handled %s", id)
		}
	case <-time.After(time.Minute):
		t.Error("the message is not handled after the release")
	}
}
