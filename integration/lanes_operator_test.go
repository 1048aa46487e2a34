package integration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
)

// laneOperations count the acts of the operators of a blockedLanes.
type laneOperations struct {
	replays, passes, releases atomic.Int64
	brokerAway                atomic.Int64 // odd while the broker is away
	lost                      atomic.Int64 // dead letters that kills of the broker lost
	replaying                 sync.RWMutex // held by an operator who replays
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
	all, _, err := admin.Lanes(ctx, "/", h.queue, math.MaxInt)
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
	if err = h.replayLane(ctx, q, lane); h.loses && errors.Is(err, deadletter.ErrLaneMissing) {
		err = h.giveUpLost(ctx, q)
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

func (h *blockedLanes) replayLane(ctx context.Context, q *deadletter.Queue, lane deadletter.Lane) error {
	h.operated.replaying.RLock()
	defer h.operated.replaying.RUnlock()
	result, err := q.ReplayLane(ctx, lane)
	h.operated.replays.Add(int64(result.Replayed))
	h.operated.passes.Add(int64(result.Passes))
	if result.Released {
		h.operated.releases.Add(1)
	}
	if errors.Is(err, deadletter.ErrLaneFailed) {
		err = h.dropFirst(ctx, q, lane)
	}
	return err
}

// states returns the lanes that are blocked.
func (h *blockedLanes) states(ctx context.Context) (map[string]*counter.LaneState, error) {
	admin, states := h.counts.Admin(), map[string]*counter.LaneState{}
	all, _, err := admin.Lanes(ctx, "/", h.queue, math.MaxInt)
	for _, l := range all {
		state, err := admin.Lane(ctx, "/", h.queue, l.Lane)
		switch {
		case err == nil:
			states[l.Lane] = state
		case !errors.Is(err, counter.ErrNotBlocked):
			return nil, err
		}
	}
	return states, err
}

// load is that of a queue a few seconds ago.
func (h *blockedLanes) load(ctx context.Context, dial func(context.Context) (*amqp.Connection, error), queue string) (
	broker.Load, error) {
	conn, err := dial(ctx)
	if err != nil {
		return broker.Load{}, err
	}
	defer conn.Close()
	api, err := broker.NewAPI(h.management, nil)
	if err != nil {
		return broker.Load{}, err
	}
	return api.Load(ctx, conn, queue)
}

// noteExpected is called while the broker is away. It may have lost the dead letters that the lanes expect then, and no
// others.
func (h *blockedLanes) noteExpected(ctx context.Context) error {
	states, err := h.states(ctx)
	for _, state := range states {
		for _, id := range state.Dead() {
			h.expected.Store(id, true)
		}
	}
	return err
}

// giveUpLost gives up the messages whose dead letters a kill of the broker lost: those that the lanes expected at the
// kill and 15 s before now, and that are not in the dead-letter queue. A message whose nack was lost too is back in the
// work queue, so that must be empty. No replay runs meanwhile.
func (h *blockedLanes) giveUpLost(ctx context.Context, q *deadletter.Queue) error {
	h.operated.replaying.Lock()
	defer h.operated.replaying.Unlock()
	states, err := h.states(ctx)
	if err != nil {
		return err
	}
	if !pause.For(ctx, 15*time.Second) {
		return ctx.Err()
	}
	if load, err := h.load(ctx, q.Dial, h.queue); err != nil || load.Ready+load.Unacked > 0 {
		return err
	}
	found := map[string]bool{}
	for m, err := range q.Browse(ctx, deadletter.Filter{}) {
		if err != nil {
			return err
		}
		found[m.ID] = true
	}
	for lane, state := range states {
		var lost []counter.Position
		for number, id := range state.Dead() {
			p := counter.Position{Since: state.Since, Number: number}
			if _, expected := h.expected.Load(id); !expected || found[id] || !state.IsOpen(p) {
				continue
			}
			if _, err := fmt.Fprintf(h.out, "drop - %s\n", id); err != nil { // before the lane goes on
				return err
			}
			lost = append(lost, p)
		}
		if len(lost) > 0 {
			h.operated.lost.Add(int64(len(lost)))
			if _, err := h.counts.Admin().DropPositions(ctx, "/", h.queue, lane, lost); err != nil {
				return err
			}
		}
	}
	return nil
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
	return errOf(q.DropFirst(ctx, lane))
}
