package lanes

import (
	"context"
	"log/slog"
)

// Watch is for sessions that would let new messages overtake the dead letters of blocked lanes. One goroutine at a time
// uses it.
type Watch struct {
	Store        Store
	VHost, Queue string
	Log          *slog.Logger

	blocked int
	unknown bool // the store did not say it when it was last asked
}

// Ask returns the number of blocked lanes, and the error of the store. Where the store does not reply, its last number
// stands. Ask logs the first of several errors.
func (w *Watch) Ask(ctx context.Context) (blocked int, err error) {
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	blocked, err = w.Store.BlockedLanes(asking, w.VHost, w.Queue)
	switch {
	case err == nil:
		w.blocked = blocked
	case !w.unknown && ctx.Err() == nil:
		w.Log.Warn("whether lanes of the queue are blocked is not known: the last number stands", "queue", w.Queue,
			"blocked", w.blocked, "error", err)
	}
	w.unknown = err != nil && (w.unknown || ctx.Err() == nil)
	return w.blocked, err
}
