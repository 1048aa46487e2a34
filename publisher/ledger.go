package publisher

import (
	"cmp"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ledger knows every message accepted and not settled. Safe for concurrent use.
//
// At most one message per route is in it, the next waits: a basic.return
// carries no delivery tag, and of two messages alike in exchange, key and id
// nobody could say which came back.
type ledger struct {
	mu     sync.Mutex
	closed bool
	empty  chan struct{} // closed once the ledger is, and all is settled
	open   map[route]*outgoing
	orders uint64
}

func newLedger() *ledger {
	return &ledger{open: make(map[route]*outgoing), empty: make(chan struct{})}
}

// add accepts o. If another message of its route is in the way it returns that
// one, whose done the caller awaits before it tries again.
func (l *ledger) add(o *outgoing) (inTheWay *outgoing, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if other := l.open[o.route()]; other != nil {
		return other, nil
	}
	l.open[o.route()] = o
	return nil, nil
}

// close makes every later add fail. Call it once.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if len(l.open) == 0 {
		close(l.empty)
	}
}

// take marks o as being written. It returns false if o was settled meanwhile.
func (l *ledger) take(o *outgoing) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.state == settled {
		return false
	}
	l.orders++
	o.state, o.order, o.since = writing, l.orders, time.Now()
	return true
}

// putBack undoes take, for a message of which nothing was sent.
func (l *ledger) putBack(o *outgoing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.state == writing {
		o.state = queued
	}
}

func (l *ledger) wrote(o *outgoing, dc *amqp.DeferredConfirmation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.confirm = dc
}

func (l *ledger) noteReturn(r amqp.Return) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.open[route{r.Exchange, r.RoutingKey, r.MessageId}]; o != nil {
		r.Body = nil
		o.returned = &r
	}
}

// settle gives o its fate, decided under the lock, unless it has one.
func (l *ledger) settle(o *outgoing, fate func() error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settleLocked(o, fate())
}

// withdraw settles o only if nothing of it was sent.
func (l *ledger) withdraw(o *outgoing, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return o.state == queued && l.settleLocked(o, err)
}

func (l *ledger) settleLocked(o *outgoing, err error) bool {
	if o.state == settled {
		return false
	}
	o.state, o.err = settled, err
	close(o.done)
	if l.open[o.route()] == o {
		delete(l.open, o.route())
		if l.closed && len(l.open) == 0 {
			close(l.empty)
		}
	}
	return true
}

// inState lists the messages in one state, in the order of their writing.
func (l *ledger) inState(s state) []*outgoing {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*outgoing
	for _, o := range l.open {
		if o.state == s {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b *outgoing) int { return cmp.Compare(a.order, b.order) })
	return list
}

// oldest is when the writing of the oldest unconfirmed message began; zero: there is none.
func (l *ledger) oldest() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	var oldest time.Time
	for _, o := range l.open {
		if o.state == writing && (oldest.IsZero() || o.since.Before(oldest)) {
			oldest = o.since
		}
	}
	return oldest
}
