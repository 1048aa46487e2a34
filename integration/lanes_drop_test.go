package integration

import (
	"context"
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

// TestTwoDropOne: two operators who look at the message that blocks a lane, and drop it, drop that one message.
func TestTwoDropOne(t *testing.T) {
	t.Parallel()
	queue := declaredAs(t, topology.Spec{Type: topology.Quorum, SingleActiveConsumer: true})
	counts := counters(t)
	publishBodies(t, queue, 0, 3, func(int) string { return "x lane" })
	c := consumer.Consumer{
		Queue: queue, Ordered: true, HoldLanes: true, Counter: counts, Lane: laneOf, MaxRetries: -1,
		Handler: func(context.Context, amqp.Delivery) error { return errors.New("no stock") },
	}
	stop := runConsumer(t, c, dialer(t), consumer.ErrUncleanStop)
	proctest.Eventually(t, time.Minute, "three dead letters", func() bool { return depthOf(dialer(t), queue+".dlq") == 3 })
	stop()
	admin := counts.Admin()
	state, err := admin.Lane(t.Context(), "/", queue, "lane")
	need(t, err)
	q, err := deadletter.Open(t.Context(), deadletter.Queue{Name: queue + ".dlq", Dial: dialer(t), Records: admin},
		deadletter.Management{URL: managementURL(t)})
	need(t, err)
	lane := deadletter.Lane{Queue: queue, Name: "lane", Store: admin, First: state.First()}
	if done, err := q.DropFirst(t.Context(), lane); err != nil || done.Dropped != 1 {
		t.Errorf("the first operator: %+v, %v", done, err)
	}
	if done, err := q.DropFirst(t.Context(), lane); !errors.Is(err, deadletter.ErrLaneChanged) || done.Dropped != 0 {
		t.Errorf("the second operator: %+v, %v", done, err)
	}
	now, err := admin.Lane(t.Context(), "/", queue, "lane")
	if err != nil || len(now.Open) != 2 {
		t.Errorf("the lane has %+v, %v", now, err)
	}
	if done, err := q.DropLane(t.Context(), lane); !errors.Is(err, deadletter.ErrLaneChanged) || done.Dropped != 0 {
		t.Errorf("an operator who saw all three drops the lane: %+v, %v", done, err)
	}
	lane.First = counter.Position{}
	if done, err := q.DropFirst(t.Context(), lane); err != nil || done.Dropped != 1 {
		t.Errorf("whichever blocks the lane: %+v, %v", done, err)
	}
	proctest.Eventually(t, time.Minute, "one dead letter left", func() bool {
		return depthOf(dialer(t), queue+".dlq") == 1
	})
}

// releasedMeanwhile is a store in which a lane is released after the first look at it.
type releasedMeanwhile struct {
	deadletter.Lanes
	looks int
}

func (s *releasedMeanwhile) Lane(ctx context.Context, vhost, queue, lane string) (*counter.LaneState, error) {
	if s.looks++; s.looks > 1 {
		return nil, counter.ErrNotBlocked
	}
	return s.Lanes.Lane(ctx, vhost, queue, lane)
}

// TestDropOfALaneReleasedMeanwhile: the dead letters that were taken return, and the next operator finds the
// dead-letter queue free.
func TestDropOfALaneReleasedMeanwhile(t *testing.T) {
	t.Parallel()
	l := blockedLane(t, 2)
	q, lane := l.open(t, "lane")
	late := lane
	late.Store = &releasedMeanwhile{Lanes: lane.Store}
	if done, err := q.DropFirst(t.Context(), late); !errors.Is(err, counter.ErrNotBlocked) || done.Dropped != 0 {
		t.Errorf("released meanwhile: %+v, %v", done, err)
	}
	if done, err := q.DropLane(t.Context(), lane); err != nil || done.Dropped != 2 {
		t.Errorf("the next operator: %+v, %v", done, err)
	}
}
