package consumer

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// everything is the weight of an isolated attempt.
const everything = math.MaxInt64

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

// pass waits until the gate is open. It reports false if ctx ends first.
func (g *gate) pass(ctx context.Context) bool {
	for opened := g.opened(); opened != nil; opened = g.opened() {
		select {
		case <-opened:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// passGate waits until the gate is open, for as long as the delivery may be held. It reports false if it is not.
func (s *session) passGate(ctx context.Context, d *delivery) bool {
	if s.isolation.gate.opened() == nil {
		return true
	}
	waiting, cancel := context.WithDeadline(ctx, d.heldUntil)
	defer cancel()
	return s.isolation.gate.pass(waiting)
}

// acquire takes units of the isolation lock. It waits for them for as long as the delivery may be held.
func (s *session) acquire(ctx context.Context, d *delivery, units int64) bool {
	if !time.Now().Before(d.heldUntil) { // it waited too long for a worker
		return false
	}
	if !s.isolation.lock.TryAcquire(units) {
		waiting, cancel := context.WithDeadline(ctx, d.heldUntil)
		defer cancel()
		if s.isolation.lock.Acquire(waiting, units) != nil {
			return false
		}
	}
	if ctx.Err() != nil {
		s.isolation.lock.Release(units)
		return false
	}
	d.lock = units
	return true
}

// isolated reports whether d has the whole isolation lock.
func (d *delivery) isolated() bool { return d.lock == everything }

// unlock gives back the units of the isolation lock. If the store has not answered for an isolated attempt, the gate is
// shut before.
func (s *session) unlock(d *delivery) {
	if d.lock == 0 {
		return
	}
	if d.isolated() && d.undecided {
		s.isolation.gate.shut()
	}
	s.isolation.lock.Release(d.lock)
	d.lock = 0
}

// decided ends the time in which a death of the process counts against d's message, if d is the undecided attempt.
func (s *session) decided(d *delivery) {
	if over := s.handOver(d); over != nil {
		over()
	}
}

// handOver returns a function to call instead of decided, once a step that outlives the delivery was taken; nil if d is
// not the undecided attempt.
func (s *session) handOver(d *delivery) func() {
	if !d.undecided {
		return nil
	}
	d.undecided = false
	return func() {
		s.isolation.gate.open()
		s.isolation.undecided.Release(1)
	}
}
