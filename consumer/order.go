package consumer

import "sync"

// order keeps the deliveries of an ordered session in their order: one of each lane is under way, and the others wait
// for it. A nil *order keeps no order.
type order struct {
	mu      sync.Mutex
	waiting map[string]fifo // of each lane with a delivery under way
	halted  bool
}

func newOrder() *order { return &order{waiting: map[string]fifo{}} }

// enter reports whether d is the first of its lane and may go on. If not, d waits until next returns it.
func (l *order) enter(d *delivery) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting, busy := l.waiting[d.lane]
	if busy {
		waiting.push(d)
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
	next := waiting.pop()
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
	return l.waiting[d.lane].first != nil
}

// halt lets no delivery begin any more: one returns with the session, and none may overtake it.
func (l *order) halt() {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.halted = true
	}
}

func (l *order) isHalted() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.halted
}

// fifo is a queue of deliveries. A delivery is in one at most.
type fifo struct{ first, last *delivery }

func (f *fifo) push(d *delivery) {
	if f.last == nil {
		f.first = d
	} else {
		f.last.next = d
	}
	f.last = d
}

// pop returns nil if f is empty.
func (f *fifo) pop() *delivery {
	d := f.first
	if d == nil {
		return nil
	}
	if f.first = d.next; f.first == nil {
		f.last = nil
	}
	d.next = nil
	return d
}

// remove removes d, which must be in f.
func (f *fifo) remove(d *delivery) {
	var rest fifo
	for other := f.pop(); other != nil; other = f.pop() {
		if other != d {
			rest.push(other)
		}
	}
	*f = rest
}
