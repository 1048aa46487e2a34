package consumer

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// dispatcher decides which deliveries are under way: those whose turn it is in their lane, and which have a worker.
type dispatcher struct {
	*isolation                     // of the process
	order      *order              // if ordered in place
	workers    *workers            // to run handlers
	slots      *semaphore.Weighted // for open attempts
}

// release gives back the lock, the slot and the worker of an attempt, and goes on with the delivery that gets the
// worker.
func (s *session) release(ctx context.Context, d *delivery) {
	s.unlock(&d.grip)
	s.leaveSlot(&d.grip)
	if ready := s.workers.leave(d); ready != nil {
		go s.deliver(ctx, ready, stepBegin)
	}
}

// following passes on d's turn in its lane, and its worker. It returns the delivery that the caller is to go on with.
func (s *session) following(ctx context.Context, d *delivery) *delivery {
	inLane := s.order.next(d)
	if inLane != nil && !s.asksFirst(inLane) && !s.workers.enter(inLane) {
		inLane = nil // it waits for a worker
	}
	ready := s.workers.leave(d)
	if inLane == nil {
		return ready
	}
	if ready != nil {
		go s.deliver(ctx, ready, stepBegin)
	}
	return inLane
}

// asksFirst reports whether the attempt at d asks the store first, so that it needs no worker yet.
func (s *session) asksFirst(d *delivery) bool { return s.decideReceived(d) != stepRun }

// takeSlot waits until one more attempt may be open, so that no more are open than soon run: each becomes a suspect if
// the process dies. There are twice as many slots as workers, so that no worker waits for the reply to START.
func (w *dispatcher) takeSlot(ctx context.Context, g *grip) bool {
	if ctx.Err() != nil {
		return false
	}
	g.slot = g.slot || w.slots.Acquire(ctx, 1) == nil
	return g.slot
}

func (w *dispatcher) leaveSlot(g *grip) {
	if g.slot {
		g.slot = false
		w.slots.Release(1)
	}
}

// acquire takes units of the isolation lock. It waits for them, but not beyond until.
func (w *dispatcher) acquire(ctx context.Context, g *grip, units int64, until time.Time) bool {
	if !time.Now().Before(until) { // it waited too long for a worker
		return false
	}
	if !w.lock.TryAcquire(units) {
		waiting, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		if w.lock.Acquire(waiting, units) != nil {
			return false
		}
	}
	if ctx.Err() != nil {
		w.lock.Release(units)
		return false
	}
	g.lock = units
	return true
}

// unlock gives back the units of the isolation lock. If the store has not answered for an isolated attempt, the gate is
// shut before.
func (w *dispatcher) unlock(g *grip) {
	if g.lock == 0 {
		return
	}
	if g.isolated() && g.undecided {
		w.gate.shut()
	}
	w.lock.Release(g.lock)
	g.lock = 0
}

// beUndecided waits until no other isolated attempt of the process is undecided.
func (w *dispatcher) beUndecided(ctx context.Context, g *grip, until time.Time) bool {
	waiting, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	g.undecided = w.undecided.Acquire(waiting, 1) == nil
	return g.undecided
}

// decided ends the time in which a death of the process counts against the message, if it is the undecided attempt.
func (w *dispatcher) decided(g *grip) {
	if over := w.handOver(g); over != nil {
		over()
	}
}

// handOver returns a function to call instead of decided, once a step that outlives the delivery was taken; nil if it
// is not the undecided attempt.
func (w *dispatcher) handOver(g *grip) func() {
	if !g.undecided {
		return nil
	}
	g.undecided = false
	return func() {
		w.gate.open()
		w.undecided.Release(1)
	}
}
