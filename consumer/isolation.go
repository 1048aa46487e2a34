package consumer

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// everything is the weight of an isolated attempt.
const everything = math.MaxInt64

// isolation is shared by all consumers of the process, because a message kills all of it.
type isolation struct {
	// lock has one unit for each handler that runs. An isolated attempt holds all units, from its START to the step that
	// closes it. It is first come, first served, so neither kind starves.
	lock *semaphore.Weighted

	// undecided is held for the one exclusive attempt that may be open in the store, from before it takes the lock until the
	// store has answered the step that closes it. If the process dies, that attempt is counted as a crash.
	undecided *semaphore.Weighted

	// gate is closed while the lock is free and an exclusive attempt is undecided. A message that may have killed a process
	// does not run then: its kill would count against the undecided one.
	gate gate

	// abandoned is the number of handlers that passed their deadline and still run. While there is one, nothing is isolated.
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

// isolate waits until no other exclusive attempt of the process is undecided. It needs no worker.
func (s *Settler) isolate(stop context.Context, a *attempt) {
	ctx, cancel := context.WithDeadline(stop, a.deadline)
	defer cancel()
	switch {
	case s.isolation.undecided.Acquire(ctx, 1) == nil:
		a.undecided, a.next = true, stepRunAlone
	case stop.Err() != nil:
		a.next = stepLeave
	default:
		s.handOn(a)
	}
}

// waitAtGate holds an attempt that START let run until the gate is open.
func (s *Settler) waitAtGate(stop context.Context, a *attempt) {
	if s.passGate(stop, a) {
		a.next = stepRun
	}
}

// passGate waits until the gate is open, for as long as the delivery may be held. If it reports false, a.next is set.
func (s *Settler) passGate(stop context.Context, a *attempt) bool {
	if s.isolation.gate.opened() == nil {
		return true
	}
	ctx, cancel := context.WithDeadline(stop, a.deadline)
	defer cancel()
	switch {
	case s.isolation.gate.pass(ctx):
		return true
	case stop.Err() != nil:
		a.next = stepLeave
	default:
		s.handOn(a)
	}
	return false
}

// tryIsolated runs the handler with no other beside it. START and the step that closes the attempt are sent under the
// lock: between them a death of this process counts against this message. If the store does not answer in time, the lock is
// released and the gate is shut instead.
func (s *Settler) tryIsolated(stop, live context.Context, a *attempt, h Handler) {
	if !s.acquire(stop, a, everything) {
		return
	}
	defer s.isolation.lock.Release(everything)
	_ = within(lockedPatience, s.flush) // a connection that blocks must not hold the lock
	a.locked, a.mode = true, decideIsolated(s.isolation.abandoned.Load())
	if s.start(stop, a); a.next == stepRunAlone {
		if a.next = stepLeave; stop.Err() == nil {
			s.run(live, a, h)
			s.judge(stop, a)
		}
		s.conclude(stop, a)
	}
	a.locked = false
	if a.undecided {
		s.isolation.gate.shut()
	}
}

// decided ends the time in which a death of the process counts against a's message, if a is the undecided attempt.
func (s *Settler) decided(a *attempt) {
	if over := s.handOver(a); over != nil {
		over()
	}
}

// handOver returns a function to call instead of decided, once a step that outlives the delivery was taken; nil if a is not the
// undecided attempt.
func (s *Settler) handOver(a *attempt) func() {
	if !a.undecided {
		return nil
	}
	a.undecided = false
	return func() {
		s.isolation.gate.open()
		s.isolation.undecided.Release(1)
	}
}
