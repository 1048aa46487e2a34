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

	mu        sync.Mutex
	undecided map[string]bool // attempts that run, or whose delivery still waits, by their tokens
	until     time.Time       // not idle before, whatever runs
}

// begin begins an attempt. Its decision ends it.
func (i *idle) begin(token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.undecided == nil {
		i.undecided = map[string]bool{}
	}
	i.undecided[token] = true
	i.extend(0)
}

// Observe counts a decision as something to do, and the wait for the next attempt, for which the delivery is held, as
// well.
func (i *idle) Observe(_ context.Context, e consumer.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e.Outcome != consumer.OutcomeHold { // the store or the dead-letter route is awaited
		delete(i.undecided, e.Token)
	}
	i.extend(e.Wait)
}

// extend has the consumer not idle for a wait and the patience from now on. The caller has locked i.mu.
func (i *idle) extend(wait time.Duration) {
	if until := time.Now().Add(wait + i.patience); until.After(i.until) {
		i.until = until
	}
}

// left is how long it takes at least to be idle.
func (i *idle) left() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.undecided) > 0 {
		return i.patience
	}
	return time.Until(i.until)
}

// wait returns true once there was nothing to do for the whole of the patience and the queue is empty, false when ctx
// is done.
func (i *idle) wait(ctx context.Context, empty func() bool) bool {
	i.mu.Lock()
	i.extend(0)
	i.mu.Unlock()
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
