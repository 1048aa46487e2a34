package integration

import (
	"context"
	"errors"
	"testing"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
)

// TestTwoDropOne: two operators who look at the message that blocks a lane, and drop it, drop that one message.
func TestTwoDropOne(t *testing.T) {
	t.Parallel()
	l := blockedLane(t, 3)
	q, lane := l.open(t, "lane")
	state, err := lane.Store.Lane(t.Context(), "/", l.name, "lane")
	need(t, err)
	lane.First = state.First()
	if done, err := q.DropFirst(t.Context(), lane); err != nil || done.Dropped != 1 {
		t.Errorf("the first operator: %+v, %v", done, err)
	}
	if done, err := q.DropFirst(t.Context(), lane); !errors.Is(err, deadletter.ErrLaneChanged) || done.Dropped != 0 {
		t.Errorf("the second operator: %+v, %v", done, err)
	}
	now, err := lane.Store.Lane(t.Context(), "/", l.name, "lane")
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
	l.awaitDead(t, 1)
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
