package consumer

import (
	"sync"
	"sync/atomic"
)

// order keeps the deliveries of an ordered session in their order: one of each lane is under way, and the others wait
// for it. A nil *order keeps no order.
type order struct {
	mu      sync.Mutex
	waiting map[string][]*delivery // of each lane with a delivery under way
	halted  atomic.Bool
}

func newOrder() *order { return &order{waiting: map[string][]*delivery{}} }

// enter reports whether d is the first of its lane and may go on. If not, d waits until next returns it.
func (l *order) enter(d *delivery) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting, busy := l.waiting[d.lane]
	if busy {
		waiting = append(waiting, d)
	}
	l.waiting[d.lane] = waiting
	return !busy
}

// next returns the delivery that may go on because d is done, or nil.
func (l *order) next(d *delivery) *delivery {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.waiting[d.lane]
	next := pop(&waiting)
	if next == nil {
		delete(l.waiting, d.lane)
		return nil
	}
	l.waiting[d.lane] = waiting
	return next
}

// awaited reports whether another delivery waits for d.
func (l *order) awaited(d *delivery) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting[d.lane]) > 0
}

// halt lets no delivery begin any more: one returns with the session, and none may overtake it.
func (l *order) halt() {
	if l != nil {
		l.halted.Store(true)
	}
}

func (l *order) isHalted() bool { return l != nil && l.halted.Load() }

// pop takes the first delivery out of a queue. It returns nil if there is none.
func pop(queue *[]*delivery) *delivery {
	if len(*queue) == 0 {
		return nil
	}
	first := (*queue)[0]
	(*queue)[0] = nil // for the garbage collector
	*queue = (*queue)[1:]
	return first
}
