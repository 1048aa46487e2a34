package lanes

import (
	"context"
	"log/slog"
	"sync"
)

// Counter is a store that knows how many lanes of a queue are blocked.
type Counter interface {
	BlockedLanes(ctx context.Context, vhost, queue string) (int, error)
}

// Watch is for sessions that would let new messages overtake the dead letters of blocked lanes. Where the store does
// not reply, its last number stands.
type Watch struct {
	Store        Counter
	VHost, Queue string
	Log          *slog.Logger

	mu      sync.Mutex
	blocked int
	unknown bool // the store did not say it when it was last asked
}

// Ask returns the number of blocked lanes, and the error of the store, with its last number.
func (w *Watch) Ask(ctx context.Context) (blocked int, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	blocked, err = w.Store.BlockedLanes(ctx, w.VHost, w.Queue)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.blocked, w.unknown = blocked, false
	}
	return w.blocked, err
}

// AnyBlocked reports whether the store says that a lane is blocked. It logs the first of several errors.
func (w *Watch) AnyBlocked(ctx context.Context) bool {
	blocked, err := w.Ask(ctx)
	if err == nil {
		return blocked > 0
	}
	w.mu.Lock()
	logged := w.unknown
	w.unknown = true
	w.mu.Unlock()
	if !logged {
		w.Warn(blocked, err)
	}
	return false
}

// Warn logs that the number of blocked lanes is not known.
func (w *Watch) Warn(blocked int, err error) {
	w.Log.Warn("whether lanes of the queue are blocked is not known: the last number stands", "queue", w.Queue,
		"blocked", blocked, "error", err)
}
