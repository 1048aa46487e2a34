// Package lanes knows which lanes of a queue are blocked, because a message of them was dead-lettered.
package lanes

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
)

// Store keeps which lanes are blocked.
type Store interface {
	OwnLanes(ctx context.Context, vhost, queue, before, owner string) (now string, err error)
	StepLane(ctx context.Context, s rules.LaneStep) (rules.LaneReply, error)
	NextBlocked(ctx context.Context, vhost, queue string, after counter.BlockedPage) (counter.BlockedPage, error)
}

// ErrUnowned says that another session owns the lanes.
var ErrUnowned = errors.New("consumer: another session consumes the queue, or an operator changed the lane meanwhile")

// unknownLanes is logged by a session that finds no owner of the lanes. No dead letter tells a new store from one that
// lost its data.
const unknownLanes = "no lanes are recorded for this queue yet; if it is not new, the store has lost its data, and " +
	"messages overtake the dead letters of their lanes: strikes status shows whether there are any"

const (
	// laneRenewal is how often the blocked lanes in the store are renewed.
	laneRenewal = time.Hour
	// laneRetry is the pause after a page of blocked lanes could not be read.
	laneRetry = time.Second
	// timeout is for one request to the store.
	timeout = time.Second
)

// Blocked is a session's knowledge of the blocked lanes of its queue.
//
// The broker settles nothing for a session once another has received a delivery. So a session that owns the lanes
// after its first delivery finds every lane with a dead letter in the store, and later dead letters are its own. It
// reads the blocked lanes in the background. Until it has read them all, it asks the store about each lane that it
// has not seen; then it asks about blocked lanes only.
type Blocked struct {
	store        Store
	vhost, queue string
	owner        string
	log          *slog.Logger
	numbers      atomic.Int64

	turn  chan struct{} // held by the one that asks; has room for one
	owned chan struct{} // closed once the session owns the lanes

	mu    sync.Mutex
	known map[string]bool // by hash: whether a lane is blocked. One that is missing is not, if all is read
	read  bool            // all blocked lanes
}

// New returns the state of a session about the blocked lanes of a queue. The owner is unique to the session.
func New(store Store, vhost, queue, owner string, log *slog.Logger) *Blocked {
	return &Blocked{
		store: store, vhost: vhost, queue: queue, owner: owner, log: log,
		turn: make(chan struct{}, 1), owned: make(chan struct{}), known: map[string]bool{},
	}
}

// IsFree reports whether a lane is known not to be blocked.
func (h *Blocked) IsFree(lane string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.read && len(h.known) == 0 { // spares the hash
		return true
	}
	blocked, known := h.known[counter.LaneHash(lane)]
	return known && !blocked || !known && h.read
}

// Note notes whether a lane is blocked, and reports whether this is new.
func (h *Blocked) Note(lane string, blocked bool) (changed bool) {
	hash := counter.LaneHash(lane)
	h.mu.Lock()
	defer h.mu.Unlock()
	changed = h.known[hash] != blocked
	if h.known[hash] = blocked; !blocked && h.read {
		delete(h.known, hash)
	}
	return changed
}

// add notes a page of blocked lanes. A lane that a step of this session has released since stays free.
func (h *Blocked) add(page counter.BlockedPage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hash := range page.Lanes {
		if _, known := h.known[hash]; !known {
			h.known[hash] = true
		}
	}
}

// finishRead notes that all blocked lanes are known.
func (h *Blocked) finishRead() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.read = true
	maps.DeleteFunc(h.known, func(_ string, blocked bool) bool { return !blocked })
}

// IsOwned reports whether the session owns the lanes of the queue.
func (h *Blocked) IsOwned() bool {
	select {
	case <-h.owned:
		return true
	default:
		return false
	}
}

// Own makes the session the owner of the lanes, once. Between the two requests it asks the broker whether it still has
// the queue: a session that has lost it finds out, or finds that the next one owns the lanes.
func (h *Blocked) Own(ctx context.Context, alive func(context.Context) error) error {
	if h.IsOwned() {
		return nil
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.IsOwned() {
		return nil
	}
	before, err := h.ask(ctx, "", "")
	if err != nil {
		return err
	}
	if err := alive(ctx); err != nil {
		return err
	}
	now, err := h.ask(ctx, before, h.owner)
	if err != nil {
		return err
	}
	if now != h.owner {
		return ErrUnowned
	}
	if before == "" {
		h.log.Warn(unknownLanes, "queue", h.queue)
	}
	close(h.owned)
	return nil
}

func (h *Blocked) ask(ctx context.Context, before, owner string) (now string, err error) {
	err = bound.Step(ctx, timeout, func(ctx context.Context) (err error) {
		now, err = h.store.OwnLanes(ctx, h.vhost, h.queue, before, owner)
		return err
	})
	return now, err
}

// Keep reads the blocked lanes once the session owns them, and again every hour, which keeps the store from
// forgetting them. A session without a delivery does not own them, and only keeps them.
func (h *Blocked) Keep(ctx context.Context) {
	for owned, wait := h.owned, laneRenewal; ; {
		select {
		case <-owned:
			owned = nil // it is noticed once
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = laneRenewal
		if err := h.ReadAll(ctx); err != nil {
			wait = laneRetry
		}
	}
}

// ReadAll reads all blocked lanes from the store.
func (h *Blocked) ReadAll(ctx context.Context) error {
	owned := h.IsOwned()
	for page := (counter.BlockedPage{}); !page.Last; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := bound.Step(ctx, timeout, func(ctx context.Context) (err error) {
			page, err = h.store.NextBlocked(ctx, h.vhost, h.queue, page)
			return err
		})
		if err != nil {
			return err
		}
		if owned {
			h.add(page)
		}
	}
	if owned {
		h.finishRead()
	}
	return nil
}

// Step sends a step of a lane, and notes whether the lane is blocked after the reply. The first call gives the step
// its owner and number, so that it can be sent again after an error.
func (h *Blocked) Step(ctx context.Context, step *rules.LaneStep) (reply rules.LaneReply, err error) {
	if step.Number == 0 {
		step.Owner, step.Number = h.owner, h.numbers.Add(1)
	}
	err = bound.Step(ctx, timeout, func(ctx context.Context) (err error) {
		reply, err = h.store.StepLane(ctx, *step)
		return err
	})
	if err == nil {
		h.hear(step, reply)
	}
	return reply, err
}

func (h *Blocked) hear(step *rules.LaneStep, reply rules.LaneReply) {
	switch reply.Code {
	case rules.LaneFree:
		if h.Note(step.Lane, false) {
			h.log.Info("the lane is released", "queue", h.queue, "lane", step.Lane)
		}
	case rules.LaneBlocked, rules.LaneRun:
		if h.Note(step.Lane, true) {
			h.log.Warn("the lane is blocked: its later messages are dead-lettered without an attempt until this one is "+
				"handled or dropped; see strikes lane list", "queue", h.queue, "lane", step.Lane, "id", step.ID)
		}
	default:
	}
}
