package consumer

import "sync"

// lanes keeps the deliveries of an ordered session in their order: of each lane one is under way, and the others wait for it
// behind one another. A nil *lanes keeps none.
type lanes struct {
	mu      sync.Mutex
	waiting map[string][]*attempt // of each lane that has one under way
	halted  bool
}

func newLanes() *lanes { return &lanes{waiting: map[string][]*attempt{}} }

// enter reports whether a delivery is the first of its lane and may go on; otherwise it waits until next returns it.
func (l *lanes) enter(a *attempt) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.halted {
		a.next = stepLeave
		return true
	}
	waiting, busy := l.waiting[a.lane]
	if busy {
		waiting = append(waiting, a)
	}
	l.waiting[a.lane] = waiting
	return !busy
}

// next returns what follows a delivery that is over, if anything does. After one that was not done with, because the
// session ends, nothing that follows may run: it is to be left as well.
func (l *lanes) next(a *attempt, done bool) *attempt {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halted = l.halted || !done
	waiting := l.waiting[a.lane]
	if len(waiting) == 0 {
		delete(l.waiting, a.lane)
		return nil
	}
	next := waiting[0]
	l.waiting[a.lane] = waiting[1:]
	if l.halted {
		next.next = stepLeave
	}
	return next
}

// waits reports whether a delivery waits behind a, which is under way in its lane.
func (l *lanes) waits(a *attempt) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting[a.lane]) > 0
}
