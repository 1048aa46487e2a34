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
// for it to be decided, but not for long: after four ticks, once there are two runs of them, or when the broker may send nothing
// more and a worker is idle, it is settled on its own. An urgent one is settled immediately, with all that are decided up
// to the first in hand. One that is decided otherwise than its neighbours does not end a run.
// Requeues that go together also come back together, next to one another, so that the next run of them is one again.
type window struct {
	settled func(*attempt, error) // told of each delivery whose settlement was sent, or could not be
	timer   *time.Timer           // of the next tick
	room    int                   // for so many deliveries that the broker may have given out
	each    bool                  // settle no two together

	mu             sync.Mutex
	oldest, newest *attempt // linked by older and newer; one that is left unsettled stays, for no run may cover it
	size           int      // how many they are
	decided        int      // of them, that wait for their settlement
	run            int      // how many of those are worth one
	idle           int      // workers that have nothing to do
	ticks          int      // so far
	armed          bool     // the timer runs; it does whenever something is decided

	due     []settlement // taken out of the window
	sending bool         // by one goroutine at a time: a tag that a run has covered must not be settled again
	again   bool         // it is to look once more
	paused  bool
}

// settlement is one ack or nack: that of the last of these.
type settlement []*attempt

func newWindow(room int, each bool, settled func(*attempt, error)) *window {
	w := &window{settled: settled, room: room, each: each, run: max(room/3, 1), armed: true}
	if each {
		w.run = 1
	}
	w.timer = time.AfterFunc(tick, w.tick)
	return w
}

func (w *window) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticks++
	w.armed = false
	w.send()
	if w.decided > 0 && !w.armed {
		w.arm()
	}
}

func (w *window) arm() {
	w.armed = true
	w.timer.Reset(tick)
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
	w.size++
}

// settle has a delivery acked or nacked as its next step says, soon.
func (w *window) settle(a *attempt) { w.decide(a, false) }

// settleNow is settle for a delivery that is urgent: something waits until it is settled.
func (w *window) settleNow(a *attempt) { w.decide(a, true) }

func (w *window) decide(a *attempt, urgent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.decided, a.tick = true, w.ticks
	if urgent {
		a.tick -= patience // it has waited long enough
	}
	only := w.decided == 0 // the timer may begin anew: nothing else waits for it
	w.decided++
	if urgent || w.decided >= w.run || w.starving() {
		w.send()
	}
	if w.decided > 0 && (only || !w.armed) {
		w.arm()
	}
}

// flush settles what is decided, for what comes next may end the process.
func (w *window) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a := w.oldest; a != nil; a = a.newer {
		if a.decided {
			a.tick = w.ticks - patience
		}
	}
	if w.decided > 0 {
		w.send()
	}
}

// idles is told of a worker that has nothing to do, works when it has again.
func (w *window) idles() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.idle++; w.decided > 0 && w.starving() {
		w.send()
	}
}

func (w *window) works() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle--
}

// starving reports whether a worker waits for what the broker may not send before something is settled.
func (w *window) starving() bool { return w.idle > 0 && w.size >= w.room }

// hurry settles what is decided, and from now on each delivery at once.
func (w *window) hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run, w.paused = 1, false
	w.send()
}

// pause settles nothing until hurry is called, but for one ack or nack that may be on its way.
func (w *window) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = true
}

// send settles what is due, with the lock let go meanwhile. If another goroutine is at it, that one looks once more. It is the
// only place of a session that settles.
func (w *window) send() {
	w.again = true
	if w.sending {
		return
	}
	w.sending = true
	for !w.paused && (w.again || len(w.due) > 0) {
		if len(w.due) == 0 {
			w.again = false
			w.take()
			continue
		}
		next := w.due[0]
		w.due = w.due[1:]
		w.mu.Unlock()
		err := next[len(next)-1].settle(len(next) > 1)
		for _, a := range next {
			w.settled(a, err)
		}
		w.mu.Lock()
	}
	w.sending = false
}

// take takes out the decided deliveries up to the first in hand, and of those behind it the ones that have waited long enough,
// or all if they are many or keep the workers waiting.
func (w *window) take() {
	run := make([]*attempt, 0, w.decided)
	for w.oldest != nil && w.oldest.decided {
		run = append(run, w.oldest)
		w.remove(w.oldest)
	}
	all := w.run == 1 || w.decided >= 2*w.run || w.starving()
	var singles []*attempt
	for a, left := w.oldest, w.decided; left > 0; {
		newer := a.newer
		if a.decided {
			left--
			if all || w.ticks >= a.tick+patience {
				singles = append(singles, a)
				w.remove(a)
			}
		}
		a = newer
	}
	if w.each {
		w.singly(run)
	} else {
		w.inRuns(run)
	}
	w.singly(singles)
}

// remove takes a decided delivery out. It leaves no links: a handler that hangs keeps its attempt, which must not keep all that
// followed.
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
	w.size--
	w.decided--
}

// inRuns makes one settlement of each run of the oldest deliveries that is decided alike. One between two of a run goes before
// it, on its own.
func (w *window) inRuns(oldest []*attempt) {
	for len(oldest) > 0 {
		run, between, rest := firstRun(oldest)
		w.singly(between)
		w.due = append(w.due, run)
		oldest = rest
	}
}

func (w *window) singly(deliveries []*attempt) {
	for _, a := range deliveries {
		w.due = append(w.due, settlement{a})
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
