package consumer

import (
	"sync"
	"time"
)

// tick is how often a window looks for acks that are due.
const tick = time.Millisecond

// window is what a session has received and not settled, oldest first. It acks what is handled in runs: one basic.ack for
// all up to the first delivery that is still in hand. What is behind that one waits for it to be settled, but not for long:
// after two ticks it is acked on its own.
type window struct {
	acked func(*attempt, error) // told of each delivery whose ack was sent, or could not be
	timer *time.Timer           // of the next tick; runs whenever something is handled and not acked

	mu             sync.Mutex
	oldest, newest *attempt // linked by older and newer
	ticks          int      // so far
	handled        int      // deliveries that wait for their ack
	run            int      // how many of them are worth one
	sending        bool     // by one goroutine at a time: a tag that a run has covered must not be acked again
	again          bool     // it is to look once more
}

func newWindow(run int, acked func(*attempt, error)) *window {
	w := &window{acked: acked, run: run}
	w.timer = time.AfterFunc(tick, w.tick)
	return w
}

func (w *window) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticks++
	w.send()
	if w.handled > 0 {
		w.timer.Reset(tick)
	}
}

// open takes in a delivery, in the order of the channel.
func (w *window) open(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.older = w.newest; a.older == nil {
		w.oldest = a
	} else {
		a.older.newer = a
	}
	w.newest = a
}

// nacked takes out a delivery, after its nack was sent. One that is left unsettled stays, for no run may cover it.
func (w *window) nacked(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(a)
}

// handle has a delivery acked, soon.
func (w *window) handle(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.handled, a.tick = true, w.ticks
	w.handled++
	switch {
	case w.handled >= w.run:
		w.send()
	case w.handled == 1:
		w.timer.Reset(tick)
	}
}

// hurry acks what is handled, and from now on each delivery at once.
func (w *window) hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run = 1
	w.send()
}

// send acks what is due, with the lock let go meanwhile. If another goroutine is at it, that one looks once more.
func (w *window) send() {
	w.again = true
	if w.sending {
		return
	}
	w.sending = true
	for w.again {
		w.again = false
		run, singles := w.take()
		w.mu.Unlock()
		w.ack(run, singles)
		w.mu.Lock()
	}
	w.sending = false
}

// take takes out the handled deliveries up to the first in hand, and of those behind it the ones that have waited long enough,
// or all if they are many.
func (w *window) take() (run, singles []*attempt) {
	if w.handled > 0 {
		run = make([]*attempt, 0, w.handled)
	}
	for w.oldest != nil && w.oldest.handled {
		run = append(run, w.oldest)
		w.remove(w.oldest)
	}
	w.handled -= len(run)
	all := w.run == 1 || w.handled >= 2*w.run
	for a, left := w.oldest, w.handled; left > 0; a = a.newer {
		if !a.handled {
			continue
		}
		left--
		if all || w.ticks >= a.tick+2 {
			singles = append(singles, a)
			w.remove(a)
			w.handled--
		}
	}
	return run, singles
}

// remove leaves a's own links in place, for a walk that has come to it.
func (w *window) remove(a *attempt) {
	if a.older == nil {
		w.oldest = a.newer
	} else {
		a.older.newer = a.newer
	}
	if a.newer == nil {
		w.newest = a.older
	} else {
		a.newer.older = a.older
	}
}

// ack sends the acks, the only place of a session that does.
func (w *window) ack(run, singles []*attempt) {
	if n := len(run); n > 0 {
		err := run[n-1].delivery.Ack(n > 1)
		for _, a := range run {
			w.acked(a, err)
		}
	}
	for _, a := range singles {
		w.acked(a, a.delivery.Ack(false))
	}
}
