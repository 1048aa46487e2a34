package consumer

import (
	"sync"
	"time"
)

// tick is how often a window looks for settlements that are due; patience is for how many of them a delivery waits for one
// before it that is still in hand.
const (
	tick     = time.Millisecond
	patience = 4
)

// window is what a session has received and not settled, oldest first. It settles in runs: one basic.ack or basic.nack for
// all that are decided alike, from the oldest up to the first delivery that is still in hand. What is behind that one waits
// for it to be decided, but not for long: after four ticks, or once there are two runs of them, it is settled on its own.
// Requeues that go together also come back together, next to one another, so that the next run of them is one again.
type window struct {
	settled func(*attempt, error) // told of each delivery whose settlement was sent, or could not be
	timer   *time.Timer           // of the next tick; runs whenever something is decided and not settled

	mu             sync.Mutex
	oldest, newest *attempt // linked by older and newer; one that is left unsettled stays, for no run may cover it
	ticks          int      // so far
	decided        int      // deliveries that wait for their settlement
	run            int      // how many of them are worth one
	sending        bool     // by one goroutine at a time: a tag that a run has covered must not be settled again
	again          bool     // it is to look once more
	paused         bool
}

func newWindow(run int, settled func(*attempt, error)) *window {
	w := &window{settled: settled, run: run}
	w.timer = time.AfterFunc(tick, w.tick)
	return w
}

func (w *window) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticks++
	w.send()
	if w.decided > 0 {
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

// settle has a delivery acked or nacked as its next step says, soon.
func (w *window) settle(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.decided, a.tick = true, w.ticks
	w.decided++
	switch {
	case w.decided >= w.run:
		w.send()
	case w.decided == 1:
		w.timer.Reset(tick)
	}
}

// hurry settles what is decided, and from now on each delivery at once.
func (w *window) hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run, w.paused = 1, false
	w.send()
}

// pause settles nothing until hurry is called.
func (w *window) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = true
}

// send settles what is due, with the lock let go meanwhile. If another goroutine is at it, that one looks once more.
func (w *window) send() {
	w.again = true
	if w.sending {
		return
	}
	w.sending = true
	for w.again && !w.paused {
		w.again = false
		run, singles := w.take()
		w.mu.Unlock()
		w.settleRuns(run)
		w.settleEach(singles)
		w.mu.Lock()
	}
	w.sending = false
}

// take takes out the decided deliveries up to the first in hand, and of those behind it the ones that have waited long enough,
// or all if they are many.
func (w *window) take() (run, singles []*attempt) {
	if w.decided > 0 {
		run = make([]*attempt, 0, w.decided)
	}
	for w.oldest != nil && w.oldest.decided {
		run = append(run, w.oldest)
		w.remove(w.oldest)
	}
	w.decided -= len(run)
	all := w.run == 1 || w.decided >= 2*w.run
	for a, left := w.oldest, w.decided; left > 0; {
		newer := a.newer
		if a.decided {
			left--
			if all || w.ticks >= a.tick+patience {
				singles = append(singles, a)
				w.remove(a)
				w.decided--
			}
		}
		a = newer
	}
	return run, singles
}

// remove leaves no links: a handler that hangs keeps its attempt, which must not keep all that followed.
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
	a.older, a.newer = nil, nil
}

// settleRuns settles the oldest of the session, each run of them that is decided alike by one ack or nack. One delivery between
// two of a run is settled before it, on its own. This and settleEach are the only places of a session that settle.
func (w *window) settleRuns(oldest []*attempt) {
	for len(oldest) > 0 {
		run, between, rest := firstRun(oldest)
		w.settleEach(between)
		err := run[len(run)-1].settle(len(run) > 1)
		for _, a := range run {
			w.settled(a, err)
		}
		oldest = rest
	}
}

// firstRun divides decided deliveries into the run that begins with the oldest, those between its own, and what follows it.
func firstRun(oldest []*attempt) (run, between, rest []*attempt) {
	alike := func(i int) bool { return i < len(oldest) && oldest[i].next == oldest[0].next }
	n := 1
	for alike(n) {
		n++
	}
	run = oldest[:n:n] // what follows is copied
	for ; alike(n) || alike(n+1); n++ {
		if alike(n) {
			run = append(run, oldest[n])
		} else {
			between = append(between, oldest[n])
		}
	}
	return run, between, oldest[n:]
}

func (w *window) settleEach(deliveries []*attempt) {
	for _, a := range deliveries {
		w.settled(a, a.settle(false))
	}
}
