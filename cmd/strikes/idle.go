package main

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
	undecided map[string]bool      // attempts that run, or whose delivery is still held, by their tokens
	until     time.Time            // not idle before, whatever runs
	waits     map[string]time.Time // for the next attempt, for which a delivery is held, by the tokens of the last ones
}

func newIdle(patience time.Duration) *idle {
	return &idle{patience: patience, undecided: map[string]bool{}, waits: map[string]time.Time{}}
}

// begin begins an attempt. Its decision ends it.
func (i *idle) begin(token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.undecided[token] = true
	i.extend()
}

// Observe counts a decision as something to do, and the wait for the next attempt as well, unless the message is moved:
// then the delivery is not held.
func (i *idle) Observe(_ context.Context, e consumer.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e.Outcome != consumer.OutcomeHold { // the store or the dead-letter route is awaited
		delete(i.undecided, e.Token)
		delete(i.waits, e.Token)
	}
	if e.Wait > 0 {
		i.waits[e.Token] = time.Now().Add(e.Wait)
	}
	i.extend()
}

// extend has the consumer not idle for the patience from now on. The caller has locked i.mu.
func (i *idle) extend() { i.until = time.Now().Add(i.patience) }

// left is how long it takes at least to be idle.
func (i *idle) left() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.undecided) > 0 {
		return i.patience
	}
	until := i.until
	for token, wait := range i.waits {
		if wait = wait.Add(i.patience); wait.After(until) {
			until = wait
		}
		if !wait.After(time.Now()) {
			delete(i.waits, token)
		}
	}
	return time.Until(until)
}

// wait returns true once there was nothing to do for the whole of the patience and the queue is empty, false when ctx
// is done.
func (i *idle) wait(ctx context.Context, empty func() bool) bool {
	i.mu.Lock()
	i.extend()
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
