package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/pause"
)

// laneOperations count the acts of the operators of a blockedLanes.
type laneOperations struct {
	replays, passes, releases atomic.Int64
	brokerAway                atomic.Int64 // odd while the broker is away
}

// operate has two operators replay lanes until the function that it returns is called.
func (h *blockedLanes) operate(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var operators sync.WaitGroup
	for range 2 {
		operators.Go(func() {
			for ctx.Err() == nil {
				away := h.operated.brokerAway.Load()
				err := h.replayOne(ctx, t)
				switch {
				case err == nil, ctx.Err() != nil:
				case away%2 == 1, away != h.operated.brokerAway.Load():
					pause.For(ctx, 100*time.Millisecond)
				case errors.As(err, new(*counter.StoreError)), errors.Is(err, deadletter.ErrInterrupted): // of a busy machine
					t.Logf("an operator begins again: %v", err)
				default:
					t.Errorf("an operator: %v", err)
					return
				}
			}
		})
	}
	stop = func() { cancel(); operators.Wait() }
	t.Cleanup(stop)
	return stop
}

// replayOne replays a lane. It drops a message that fails again and always will.
func (h *blockedLanes) replayOne(ctx context.Context, t *testing.T) error {
	t.Helper()
	admin := h.counts.Admin()
	all, err := admin.Lanes(ctx, "/", h.queue)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		pause.For(ctx, 10*time.Millisecond)
		return nil
	}
	q, err := deadletter.Open(ctx, deadletter.Queue{Name: h.queue + ".dlq", Dial: dialer(t), Records: admin},
		deadletter.Management{URL: managementURL(t)})
	if err != nil {
		return err
	}
	lane := deadletter.Lane{Queue: h.queue, Name: all[rand.IntN(len(all))].Lane, Store: admin, Wait: time.Minute,
		Passes: 50}
	result, err := q.ReplayLane(ctx, lane)
	h.operated.replays.Add(int64(result.Replayed))
	h.operated.passes.Add(int64(result.Passes))
	if result.Released {
		h.operated.releases.Add(1)
	}
	if errors.Is(err, deadletter.ErrLaneFailed) {
		err = h.dropFirst(ctx, q, lane)
	}
	for _, expected := range []error{ // the other operator is at it
		deadletter.ErrBusy, deadletter.ErrLaneBusy, deadletter.ErrLaneMissing, deadletter.ErrLaneWaiting,
		counter.ErrNotBlocked,
		errKept,
	} {
		if errors.Is(err, expected) {
			return nil
		}
	}
	return err
}

var errKept = errors.New("not dropped: it will succeed")

func (h *blockedLanes) dropFirst(ctx context.Context, q *deadletter.Queue, lane deadletter.Lane) error {
	lane.Keep = func(dropped []*deadletter.Message) error {
		for _, m := range dropped {
			i, err := strconv.Atoi(m.ID)
			if times, _ := failing(i); err != nil || times < alwaysFails {
				return errKept
			}
		}
		for _, m := range dropped { // before the lane goes on
			if _, err := fmt.Fprintf(h.out, "drop - %s\n", m.ID); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := q.DropFirst(ctx, lane)
	return err
}
