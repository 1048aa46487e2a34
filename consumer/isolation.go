package consumer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// isolation is shared by all consumers of the process, because a message kills all of it.
type isolation struct {
	// lock has one unit for each handler that runs. An isolated attempt holds all units, from its START to the step that
	// closes it. It is first come, first served, so neither kind starves.
	lock *semaphore.Weighted

	// undecided is held for the one isolated attempt that may be open in the store, from before it takes the lock until
	// the store has answered the step that closes it. If the process dies, that attempt is counted as a crash.
	undecided *semaphore.Weighted

	// gate is shut while the lock is free and an isolated attempt is undecided. A message that may have killed a process
	// gets no attempt then: its kill would count against the undecided one.
	gate gate

	// abandoned is the number of handlers that passed their deadline and still run. While there is one, nothing is
	// isolated.
	abandoned atomic.Int64
}

func newIsolation() *isolation {
	return &isolation{lock: semaphore.NewWeighted(everything), undecided: semaphore.NewWeighted(1)}
}

var ofProcess = newIsolation()

// gate is open at first.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil while it is open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

// opened returns nil if the gate is open, else a channel that is closed when it opens.
func (g *gate) opened() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// pass waits until the gate is open. It reports false if it is still shut when ctx ends or at the time until.
func (g *gate) pass(ctx context.Context, until time.Time) bool {
	if g.opened() == nil {
		return true
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for opened := g.opened(); opened != nil; opened = g.opened() {
		select {
		case <-opened:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
