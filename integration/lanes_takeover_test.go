package integration

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/topology"
)

// TestReplayLaneDuringTakeover has a consumer block a message and lose the queue before its nack arrives. An operator
// reads the lane. Only then the next consumer blocks the message again and dead-letters it. The replayed message must
// carry its new position: at the old one it would be acked without an attempt.
func TestReplayLaneDuringTakeover(t *testing.T) {
	t.Parallel()
	for _, typ := range queueTypes {
		t.Run(string(typ), func(t *testing.T) {
			queue := declaredAs(t, topology.Spec{Type: typ})
			counts := counters(t)
			publishBodies(t, queue, 0, 1, func(int) string { return "x lane" })
			step := counter.LaneStep{Message: counter.Message{VHost: "/", Queue: queue, ID: "0"}, Lane: "lane",
				Act: counter.LaneBlock}
			block := func(before, owner string, end func(amqp.Delivery) error) {
				need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
					if _, err := counts.OwnLanes(t.Context(), "/", queue, before, owner); err != nil {
						return err
					}
					step.Owner, step.Number = owner, 1
					if _, err := counts.StepLane(t.Context(), step); err != nil {
						return err
					}
					return end(getOne(t, ch, queue))
				}))
			}
			block("", "first", func(amqp.Delivery) error { return nil })
			store := &watchedLane{Lanes: counts.Admin(), after: func() {
				block("first", "second", func(d amqp.Delivery) error { return d.Nack(false, false) })
				proctest.Eventually(t, time.Minute, "a dead letter", func() bool { return depthOf(dialer(t), queue+".dlq") == 1 })
			}}
			q := openDead(t, deadletter.Queue{Name: queue + ".dlq", Records: counts.Admin()})
			done, err := q.ReplayLane(t.Context(), deadletter.Lane{Queue: queue, Name: "lane", Store: store,
				Wait: 6 * time.Second})
			if !errors.Is(err, deadletter.ErrLaneWaiting) || done.Replayed != 1 {
				t.Fatalf("%+v, %v; want one replayed, which waits", done, err)
			}
			need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
				position, _ := getOne(t, ch, queue).Headers[consumer.PositionHeader].(string)
				step.Act, step.Number, step.Position = counter.LaneEnter, 2, counter.ParsePosition(position)
				reply, err := counts.StepLane(t.Context(), step)
				if reply.Code != counter.LaneRun {
					t.Errorf("the replayed message carries the position %q, and gets the reply %d; want %d: it may run", position,
						reply.Code, counter.LaneRun)
				}
				return err
			}))
		})
	}
}

// getOne waits for a message of a queue, and does not settle it.
func getOne(t *testing.T, ch *amqp.Channel, queue string) (d amqp.Delivery) {
	t.Helper()
	proctest.Eventually(t, time.Minute, "a message in "+queue, func() bool {
		got, ok, err := ch.Get(queue, false)
		need(t, err)
		d = got
		return ok
	})
	return d
}
