package publisher

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

const (
	// frameOverhead is what a frame takes beside its payload, in bytes.
	frameOverhead = 8

	// addedDelay is room for headers that brokers and replays add, such as x-death and delivery counts. A message whose
	// headers outgrow the frame ends the connection of each consumer that receives it, and blocks its queue (4.3.6).
	addedDelay = 8 << 10
)

var errStopped = errors.New("the publisher was closed")

// session is one channel in confirm mode.
type session struct {
	p         *Publisher
	conn      *connection
	ch        *amqp.Channel
	maxHeader int // bytes that a message may take of a content header frame; zero: no limit

	written  chan *outgoing // as large as the window, so a send never blocks
	returned chan amqp.Return
	recorded chan amqp.Return
	closed   chan *amqp.Error

	ended     chan struct{}  // closed when the session is over
	spawned   sync.WaitGroup // see spawn
	confirmed atomic.Bool    // the broker has confirmed a message

	mu        sync.Mutex
	cutFor    error         // why this side closes the connection
	unblocked chan struct{} // nil unless the broker blocks publishers
}

// cause is why a session ended.
type cause struct {
	err     error
	closed  *amqp.Error // nil if this side closed it
	channel bool        // only the channel ended
}

// openSession opens a channel on conn. After an error conn cannot be used any more.
func openSession(p *Publisher, conn *connection) (*session, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	s := &session{
		p: p, conn: conn, ch: ch,
		ended:    make(chan struct{}),
		written:  make(chan *outgoing, p.opts.Window),
		returned: ch.NotifyReturn(make(chan amqp.Return)),
		recorded: ch.NotifyReturn(make(chan amqp.Return)),
		closed:   ch.NotifyClose(make(chan *amqp.Error, 1)),
	}
	if size := conn.Config.FrameSize; size > 0 {
		s.maxHeader = size - frameOverhead - min(addedDelay, size/4)
	}
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	return s, nil
}

// watch receives the broker's notifications until the session is over. It waits for nothing else, because the library's
// reader waits for it.
//
// Each basic.return arrives twice, on returned and then on recorded. Both are unbuffered, so the reader gets past
// recorded, to the confirm that follows, only when the return is in the ledger.
func (s *session) watch(stop <-chan struct{}) cause {
	tick := time.NewTicker(max(s.p.opts.ConfirmTimeout/8, time.Millisecond))
	defer tick.Stop()
	var openSince time.Time
	for {
		select {
		case r, ok := <-s.returned:
			if ok {
				s.p.ledger.noteReturn(r)
			} else {
				s.returned = nil
			}
		case _, ok := <-s.recorded:
			if !ok {
				s.recorded = nil
			}
		case b, ok := <-s.conn.blocked:
			if ok { // otherwise conn.closed is next
				s.block(b)
				openSince = time.Now()
			}
		case e := <-s.conn.closed:
			return s.cause(e)
		case e := <-s.closed:
			return s.cause(e)
		case now := <-tick.C:
			if s.gate() == nil && overdue(now, s.p.ledger.oldest(), openSince, s.p.opts.ConfirmTimeout) {
				s.cut(fmt.Errorf("no confirm within %v", s.p.opts.ConfirmTimeout))
			}
		case <-stop:
			stop = nil
			s.cut(errStopped)
		}
	}
}

// overdue reports whether the confirm of a message written at since is late; zero: there is no message. The time before
// openSince, when the broker blocked the connection, does not count.
func overdue(now, since, openSince time.Time, timeout time.Duration) bool {
	if since.IsZero() {
		return false
	}
	if openSince.After(since) {
		since = openSince
	}
	return now.Sub(since) >= timeout
}

func (s *session) cause(closed *amqp.Error) cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.cutFor != nil:
		return cause{err: s.cutFor}
	case closed == nil:
		return cause{err: errors.New("closed on this side")}
	}
	return cause{err: closed, closed: closed, channel: !s.conn.IsClosed()}
}

// cut closes the connection, which also ends a write that hangs. It does not wait: the reply comes through the reader,
// which watch must not block.
func (s *session) cut(why error) {
	s.mu.Lock()
	first := s.cutFor == nil
	if first {
		s.cutFor = why
	}
	s.mu.Unlock()
	if first {
		s.spawn(func() { broker.HangUp(s.conn.Connection) })
	}
}

// spawn runs f in a goroutine that the end of the session waits for. After the end it does nothing: a write may outlive
// the session.
func (s *session) spawn(f func()) {
	select {
	case <-s.ended:
	default:
		s.spawned.Go(f)
	}
}

func (s *session) block(b amqp.Blocking) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case b.Active && s.unblocked == nil:
		s.unblocked = make(chan struct{})
		trouble := fmt.Sprintf("the broker blocks publishers (%q)", b.Reason)
		s.p.trouble.Store(&trouble)
		s.p.opts.Logger.Warn("publisher: blocked by the broker", "reason", b.Reason)
	case !b.Active && s.unblocked != nil:
		close(s.unblocked)
		s.unblocked = nil
		s.p.trouble.Store(nil)
		s.p.opts.Logger.Info("publisher: unblocked by the broker")
	}
}

// gate returns nil, or a channel that is closed when the broker unblocks the connection.
func (s *session) gate() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unblocked
}
