package runner

import (
	"context"
	"sync"
	"time"

	"github.com/strikesmq/strikes/consumer"
)

// idle finds out when a consumer has had nothing to do for some time.
type idle struct {
	patience time.Duration

	mu      sync.Mutex
	running int       // handlers
	until   time.Time // not idle before, whatever runs
}

// begin and end enclose an attempt.
func (i *idle) begin() { i.change(1, 0) }

func (i *idle) end() { i.change(-1, 0) }

// Observe counts a decision as something to do, and the wait for the next attempt, for which the delivery is held, as well.
func (i *idle) Observe(_ context.Context, e consumer.Event) { i.change(0, e.Wait) }

func (i *idle) change(handlers int, wait time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running += handlers
	if until := time.Now().Add(wait + i.patience); until.After(i.until) {
		i.until = until
	}
}

// left is how long it takes at least to be idle.
func (i *idle) left() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.running > 0 {
		return i.patience
	}
	return time.Until(i.until)
}

// wait returns true once there was nothing to do for the whole of the patience and the queue is empty, false when ctx is done.
func (i *idle) wait(ctx context.Context, empty func() bool) bool {
	i.change(0, 0)
	for {
		left := i.left()
		if left <= 0 {
			if empty() && i.left() <= 0 {
				return true
			}
			left = i.patience
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}
