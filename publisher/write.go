package publisher

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// write sends o and then the queue until the session ends. It returns the message it holds, if no byte of it was sent.
//
// One goroutine writes for all callers: amqp091-go writes under a lock and takes no ctx, so a caller that wrote could
// not be interrupted.
func (s *session) write(o *outgoing) (unsent *outgoing) {
	for {
		if o == nil {
			select {
			case o = <-s.p.queue:
			case <-s.ended:
				return nil
			}
		}
		if !s.mayWrite() {
			return o
		}
		switch err := s.send(o); {
		case errors.Is(err, amqp.ErrClosed):
			s.p.ledger.putBack(o)
			return o
		case err != nil:
			s.cut(err)
			return nil
		}
		o = nil
	}
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
