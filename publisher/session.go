package publisher

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var errStopped = errors.New("the publisher was closed")

// session is one channel in confirm mode, and what the broker says on it.
type session struct {
	p         *Publisher
	conn      *connection
	ch        *amqp.Channel
	maxHeader int // bytes that a message may take of a content header frame; zero: no limit

	written  chan sent // as large as the window, so a send never blocks
	returned chan amqp.Return
	recorded chan amqp.Return
	closed   chan *amqp.Error

	lost      chan struct{}  // closed once the session is over
	spawned   sync.WaitGroup // see spawn
	confirmed atomic.Bool    // the broker has confirmed something

	mu        sync.Mutex
	cutFor    error         // why this side closes the connection
	unblocked chan struct{} // nil while the broker lets us publish
}

// cause is why a session ended.
type cause struct {
	err     error
	closed  *amqp.Error // nil if this side closed it
	channel bool        // the channel alone; the connection lives
}

// openSession opens a channel on conn. After an error, conn is of no more use.
func openSession(p *Publisher, conn *connection) (*session, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	s := &session{
		p: p, conn: conn, ch: ch,
		lost:     make(chan struct{}),
		written:  make(chan sent, p.opts.Window),
		returned: ch.NotifyReturn(make(chan amqp.Return)),
		recorded: ch.NotifyReturn(make(chan amqp.Return)),
		closed:   ch.NotifyClose(make(chan *amqp.Error, 1)),
	}
	if size := conn.Config.FrameSize; size > 0 {
		s.maxHeader = size - frameOverhead - min(addedLater, size/4)
	}
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	return s, nil
}

const (
	// frameOverhead is what a frame takes beside its payload, in bytes.
	frameOverhead = 8

	// addedLater is room for what brokers and replays add to the headers: counts of deliveries, x-death. A message whose
	// headers outgrow the frame ends the connection of whoever receives it, and blocks its queue (4.3.6).
	addedLater = 8 << 10
)

// watch hears all that the broker says, and returns when the session is over.
// It never waits for anything else: the library's reader waits for it.
//
// Each basic.return arrives twice, on returned and then on recorded. Both are
// unbuffered, so the reader gets past recorded, to the confirm that follows,
// only when the return is in the ledger.
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
			if ok { // else conn.closed is next
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

// overdue is true if a message written at since should have had its confirm by
// now. Time before openSince, when the broker blocked the connection, is not
// counted. A zero since: no message.
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

// cut closes the connection. The deadline it sets also ends a write that hangs.
// It does not wait: the answer comes by way of the reader, which watch must not hold up.
func (s *session) cut(why error) {
	s.mu.Lock()
	first := s.cutFor == nil
	if first {
		s.cutFor = why
	}
	s.mu.Unlock()
	if first {
		s.spawn(s.conn.close)
	}
}

// spawn runs f beside; the end of the session waits for it. Nothing is begun
// by a write that outlived its session.
func (s *session) spawn(f func()) {
	select {
	case <-s.lost:
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
		s.p.setTrouble(fmt.Sprintf("the broker blocks publishers (%q)", b.Reason))
		s.p.opts.Logger.Warn("publisher: blocked by the broker", "reason", b.Reason)
	case !b.Active && s.unblocked != nil:
		close(s.unblocked)
		s.unblocked = nil
		s.p.setTrouble("")
		s.p.opts.Logger.Info("publisher: unblocked by the broker")
	}
}

// gate is nil, or closed once the broker unblocks the connection.
func (s *session) gate() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unblocked
}
