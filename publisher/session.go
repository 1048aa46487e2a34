package publisher

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

var errStopped = errors.New("the publisher was closed")

// session is one channel in confirm mode.
type session struct {
	p         *Publisher
	conn      *connection
	ch        *amqp.Channel
	maxHeader int // bytes that properties and headers of a message may take; zero: no limit

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
		ended:     make(chan struct{}),
		written:   make(chan *outgoing, p.opts.Window),
		returned:  ch.NotifyReturn(make(chan amqp.Return)),
		recorded:  ch.NotifyReturn(make(chan amqp.Return)),
		closed:    ch.NotifyClose(make(chan *amqp.Error, 1)),
		maxHeader: broker.HeaderRoom(conn.Config.FrameSize),
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

// block logs in a goroutine, because the reader of amqp091-go waits for block. If the log hangs for 5 s, v1.16.0 drops
// a basic.return, and the message would count as confirmed.
func (s *session) block(b amqp.Blocking) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case b.Active && s.unblocked == nil:
		s.unblocked = make(chan struct{})
		trouble := fmt.Sprintf("the broker blocks publishers (%q)", b.Reason)
		s.p.trouble.Store(&trouble)
		go s.p.opts.Logger.Warn("publisher: blocked by the broker", "reason", b.Reason)
	case !b.Active && s.unblocked != nil:
		close(s.unblocked)
		s.unblocked = nil
		s.p.trouble.Store(nil)
		go s.p.opts.Logger.Info("publisher: unblocked by the broker")
	}
}

// gate returns nil, or a channel that is closed when the broker unblocks the connection.
func (s *session) gate() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unblocked
}

// patience bounds how long a message without confirm holds up those behind it. It is the most by which a slow queue
// delays the return of Publish for other queues.
const patience = 10 * time.Millisecond

// confirm settles written messages as the broker answers, until the session ends.
//
// The answers of one queue come in the order of writing, mostly many together. So one goroutine waits for the first and
// finds the others there; a goroutine per message costs a third of the client's time. The library's own notification is
// in order too, but holds up the confirms of every queue behind the slowest one.
func (s *session) confirm() {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		var o *outgoing
		select {
		case o = <-s.written:
		case <-s.ended:
			return
		}
		select {
		case <-o.confirm.Done():
			s.settle(o)
			continue
		default:
		}
		late.Reset(time.Until(o.since.Add(patience)))
		select {
		case <-o.confirm.Done():
			s.settle(o)
		case <-late.C:
			s.spawn(func() { // it is left to a goroutine of its own
				select {
				case <-o.confirm.Done():
					s.settle(o)
				case <-s.ended:
				}
			})
		case <-s.ended:
		}
	}
}

// settle passes on the broker's answer.
func (s *session) settle(o *outgoing) {
	var err error
	if !o.confirm.Acked() {
		if s.ch.IsClosed() { // the library ends every open confirm with a false when the channel closes: maybe no nack
			return
		}
		err = o.fail(false, ErrNacked)
	}
	s.confirmed.Store(true)
	s.p.settle(o, err)
}

// write sends o and then the queue until the session ends. It returns the message it holds, if no byte of it was sent.
//
// One goroutine writes for all callers: amqp091-go writes under a lock and takes no ctx, so a caller that wrote could
// not be interrupted. The messages that wait go to the socket together, because a system call here and a wake-up of the
// broker for each would be a good part of the cost.
func (s *session) write(o *outgoing) (unsent *outgoing) {
	for s.mayWrite() {
		if o == nil {
			select {
			case o = <-s.p.queue:
			case <-s.ended:
			}
			continue // it may have waited for long
		}
		var err error
		lost := broker.Together(s.conn.Connection, func() { o, err = s.sendQueue(o) })
		if errors.Is(err, amqp.ErrClosed) {
			if s.p.ledger.putBack(o) {
				return o
			}
			return nil
		}
		if err = cmp.Or(err, lost); err != nil {
			s.cut(err)
			return o
		}
	}
	return o
}

// sendQueue sends o and the messages that wait behind it. It returns the one that it did not send.
func (s *session) sendQueue(o *outgoing) (unsent *outgoing, err error) {
	for s.gate() == nil {
		switch err = s.send(o); {
		case errors.Is(err, amqp.ErrClosed):
			return o, err
		case err != nil:
			return nil, err
		}
		select {
		case <-s.ended: // the queue belongs to the next session
			return nil, nil
		default:
		}
		select {
		case o = <-s.p.queue:
		default:
			return nil, nil
		}
	}
	return o, nil
}

// send writes o unless its caller has given up. amqp.ErrClosed means that no whole message was written; after any other
// error it may have been.
func (s *session) send(o *outgoing) error {
	if !s.p.ledger.take(o) {
		s.p.freeSlot()
		return nil
	}
	if s.maxHeader > 0 && o.headerSize > s.maxHeader {
		s.p.settle(o, o.fail(false, fmt.Errorf("%w: properties and headers take %d bytes; a frame of this connection has "+
			"room for %d, because brokers add headers",
			ErrInvalid, o.headerSize, s.maxHeader)))
		return nil
	}
	confirm, err := s.ch.PublishWithDeferredConfirm(o.exchange, o.key, true, false, o.msg)
	if err != nil {
		return err
	}
	s.p.ledger.noteWritten(o, confirm)
	s.written <- o
	return nil
}

// mayWrite waits while the broker blocks the connection. It returns false if the session ends.
func (s *session) mayWrite() bool {
	select {
	case <-s.ended:
		return false
	default:
	}
	gate := s.gate()
	if gate == nil {
		return true
	}
	select {
	case <-gate:
		return true
	case <-s.ended:
		return false
	}
}
