package publisher

import (
	"cmp"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ledger holds the messages that are accepted and not settled. It is safe for concurrent use.
//
// It holds at most one message per route; the next one waits. A basic.return carries no delivery tag, so it could not
// be matched to one of two messages with the same exchange, key and id.
type ledger struct {
	mu     sync.Mutex
	closed bool
	empty  chan struct{} // closed once the ledger is closed and all messages are settled
	open   map[route]*outgoing
	orders uint64
}

func newLedger() *ledger {
	return &ledger{open: make(map[route]*outgoing), empty: make(chan struct{})}
}

// add accepts o. If it returns another message, that one has the same route: the caller waits for its done and tries
// again.
func (l *ledger) add(o *outgoing) (other *outgoing, err error) {
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

// take marks o as being written. It returns false if o is settled already.
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

// putBack undoes take for a message of which no byte was sent. It returns false if the end of the session settled o.
func (l *ledger) putBack(o *outgoing) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.state == writing {
		o.state = queued
	}
	return o.state == queued
}

func (l *ledger) noteWritten(o *outgoing, c confirmation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.confirm = c
}

func (l *ledger) noteReturn(r amqp.Return) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.open[route{r.Exchange, r.RoutingKey, r.MessageId}]; o != nil {
		r.Body = nil
		o.returned = &r
	}
}

// settle settles o by the broker's answer, or with otherwise if it has not answered. It returns false if o is settled
// already, or was put back.
func (l *ledger) settle(o *outgoing, otherwise error) bool { return l.settleIn(writing, o, otherwise) }

// withdraw settles o with err if no byte of it was sent, and returns whether it did.
func (l *ledger) withdraw(o *outgoing, err error) bool { return l.settleIn(queued, o, err) }

func (l *ledger) settleIn(s state, o *outgoing, otherwise error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.state != s {
		return false
	}
	o.state, o.err = settled, o.outcome(otherwise)
	close(o.done)
	if l.open[o.route()] == o {
		delete(l.open, o.route())
		if l.closed && len(l.open) == 0 {
			close(l.empty)
		}
	}
	return true
}

// inState returns the messages in one state in the order of their writing.
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

// oldest returns when the writing of the oldest unconfirmed message began; zero if there is none.
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
