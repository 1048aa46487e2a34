package publisher

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// write sends o and then what is in the queue, until the session is lost. It
// returns the message of which nothing was sent, if it holds one.
//
// One goroutine writes for all callers: amqp091-go writes under a lock and
// knows no ctx, so a caller that wrote by itself could not be called off.
func (s *session) write(o *outgoing) (unsent *outgoing) {
	for {
		if o == nil {
			select {
			case o = <-s.p.queue:
			case <-s.lost:
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

// send writes o, unless its caller has given up. amqp.ErrClosed means that no
// whole message was written; any other error leaves that open.
func (s *session) send(o *outgoing) error {
	if !s.p.ledger.take(o) {
		s.p.leave()
		return nil
	}
	if s.maxHeader > 0 && o.headerSize > s.maxHeader {
		err := fmt.Errorf("%w: properties and headers take %d bytes; a frame of this connection holds %d beside what brokers add to them", ErrInvalid, o.headerSize, s.maxHeader)
		s.p.settle(o, func() error { return o.fail(false, err) })
		return nil
	}
	dc, err := s.ch.PublishWithDeferredConfirm(o.exchange, o.key, true, false, o.msg)
	if err != nil {
		return err
	}
	s.p.ledger.wrote(o, dc)
	s.written <- sent{o, dc}
	return nil
}

// mayWrite waits while the broker blocks the connection; false: it is lost.
func (s *session) mayWrite() bool {
	select {
	case <-s.lost:
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
	case <-s.lost:
		return false
	}
}
