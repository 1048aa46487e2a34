package consumer

import (
	"sync"
	"time"
)

// ackWithin is for how long a handled delivery waits for others to be acked with it.
const ackWithin = 2 * time.Millisecond

// window is what a session has received and not settled, oldest first. It acks what is handled in runs: one basic.ack for
// all up to the first delivery that is still in hand. One that is in hand for long, because its handler is slow or it waits
// out its backoff, delays the acks of those behind it by ackWithin at most; they are acked one by one then.
type window struct {
	acked func(*attempt, error) // told of each delivery whose ack was sent, or could not be
	timer *time.Timer           // runs whenever something is handled and not acked

	mu             sync.Mutex
	oldest, newest *attempt // linked by older and newer
	handled        int      // deliveries that wait for their ack
	run            int      // how many of them are worth one
	all            bool     // those behind one in hand are due too
	sending        bool     // by one goroutine at a time: a tag that a run has covered must not be acked again
	again          bool     // it is to look once more
}

func newWindow(run int, acked func(*attempt, error)) *window {
	w := &window{acked: acked, run: run}
	w.timer = time.AfterFunc(ackWithin, func() { w.send(true) })
	return w
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
	a.handled = true
	w.handled++
	due := w.handled >= w.run
	if w.handled == 1 && !due {
		w.timer.Reset(ackWithin)
	}
	w.mu.Unlock()
	if due {
		w.send(false)
	}
}

// hurry acks what is handled, and from now on each delivery at once.
func (w *window) hurry() {
	w.mu.Lock()
	w.run = 1
	w.mu.Unlock()
	w.send(true)
}

// send acks what is due. If another goroutine is at it, that one looks once more.
func (w *window) send(all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all, w.again = w.all || all, true
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

// take takes out the handled deliveries up to the first in hand, and those behind it if they are due, which they are as well
// when there are many.
func (w *window) take() (run, singles []*attempt) {
	if w.handled > 0 {
		run = make([]*attempt, 0, w.handled)
	}
	for w.oldest != nil && w.oldest.handled {
		run = append(run, w.oldest)
		w.remove(w.oldest)
	}
	w.handled -= len(run)
	if w.all || w.run == 1 || w.handled >= 2*w.run {
		for a := w.oldest; w.handled > 0; a = a.newer {
			if a.handled {
				singles = append(singles, a)
				w.remove(a)
				w.handled--
			}
		}
	}
	w.all = false
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
