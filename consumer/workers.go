package consumer

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// workers are the right to run a handler, one for each of the Concurrency. A delivery without one waits its turn: as a
// goroutine if it is under way, else in the queue, from which the goroutine of a finished delivery takes it.
type workers struct {
	idle   func() // called when a worker finds nothing to do
	shared bool   // by sessions: a delivery that is ready has a goroutine of its session
	asked  func() // of tests: called before a delivery that is under way asks for a worker

	mu    sync.Mutex
	free  atomic.Int32 // changed with mu
	ready []*delivery  // wait for a worker; empty while one is free
}

func newWorkers(n int, idle func()) *workers {
	w := &workers{idle: idle}
	w.free.Store(int32(n))
	return w
}

// idling reports whether a worker has nothing to do.
func (w *workers) idling() bool { return w.free.Load() > 0 }

// enter gives d a worker, and reports whether it could. If not, leave returns d to the caller that has a worker for it.
// With shared workers the caller goes on in either case, and wait finds the worker.
func (w *workers) enter(d *delivery) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.take(d) || w.shared {
		return true
	}
	w.ready = append(w.ready, d)
	return false
}

// wait returns true once d has a worker, or false if ctx ends first. A handler of another partition may keep the worker
// for long.
func (w *workers) wait(ctx context.Context, d *delivery) bool {
	if w.asked != nil {
		w.asked()
	}
	w.mu.Lock()
	if d.grip.worker || w.take(d) {
		w.mu.Unlock()
		return true
	}
	turn := make(chan struct{})
	d.turn = turn
	w.ready = append(w.ready, d)
	w.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.turn == nil { // pass gave it a worker meanwhile
		return true
	}
	d.turn = nil
	w.ready = slices.DeleteFunc(w.ready, func(other *delivery) bool { return other == d })
	return false
}

func (w *workers) take(d *delivery) bool {
	if w.free.Load() == 0 {
		return false
	}
	w.free.Add(-1)
	d.grip.worker = true
	return true
}

// leave takes d's worker, if it has one, and gives it to the next that is ready. It returns that one unless its own
// goroutine goes on with it.
func (w *workers) leave(d *delivery) *delivery {
	if !d.grip.worker {
		return nil
	}
	d.grip.worker = false
	next, idle := w.pass()
	if idle {
		w.idle()
	}
	return next
}

func (w *workers) pass() (next *delivery, idle bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = pop(&w.ready)
	if next == nil {
		w.free.Add(1)
		return nil, true
	}
	next.grip.worker = true
	if next.turn != nil {
		close(next.turn)
		next.turn = nil
		return nil, false
	}
	return next, false
}
