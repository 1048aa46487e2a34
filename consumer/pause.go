package consumer

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

// untilPaused consumes with one session, unless the queue is paused: then it waits until the queue is resumed. It
// reports whether the queue was paused, before the session or in it.
func (c *Consumer) untilPaused(ctx context.Context, conn *amqp.Connection, held *heldControl,
	setUp func(*session)) (paused bool, err error) {
	s, err := c.prepared(conn)
	if err != nil {
		return false, err
	}
	setUp(s)
	s.control = held.current()
	if err := s.checked(ctx, conn); err != nil {
		return false, err
	}
	if err := s.lookForDelay(ctx, conn); err != nil {
		return false, err
	}
	if s.delayQueues != nil {
		defer func() { _ = within(closeTimeout, s.delayQueues.close) }()
	}
	s.control = held.of(s)
	return s.unlessPaused(ctx, conn, func(session context.Context) error { return s.consume(session, conn) })
}

// unlessPaused calls consume with a context that its control ends, or waits until a paused queue is resumed. It reports
// whether the queue was paused.
func (s *session) unlessPaused(ctx context.Context, conn *amqp.Connection,
	consume func(context.Context) error) (paused bool, err error) {
	if paused, err := s.awaitResume(ctx, conn); paused || err != nil || ctx.Err() != nil {
		return paused, err // what was checked may have changed meanwhile
	}
	session, end := s.control.consuming(ctx, s.holds != nil)
	defer end()
	err = consume(session)
	return session.Err() != nil && ctx.Err() == nil, err
}

// awaitResume returns once the queue is not paused, or ctx is done. It reports whether it was paused, and an error if
// the connection is lost meanwhile.
func (s *session) awaitResume(ctx context.Context, conn *amqp.Connection) (paused bool, err error) {
	if s.control == nil {
		return false, nil
	}
	select {
	case <-s.control.first:
	case <-ctx.Done():
		return false, nil
	}
	reply, changed := s.control.current()
	if !reply.Paused {
		return false, nil
	}
	s.Logger.Info("paused", "queue", s.Queue, "by", reply.Note.By, "why", reply.Note.Why, "since", reply.Note.At)
	lost := conn.NotifyClose(make(chan *amqp.Error, 1))
	for reply.Paused {
		select {
		case <-changed:
		case <-ctx.Done():
			return true, nil
		case err := <-lost:
			return true, s.lost(errLost, err)
		}
		reply, changed = s.control.current()
	}
	s.Logger.Info("resumed", "queue", s.Queue, "by", reply.Note.By, "why", reply.Note.Why)
	return true, nil
}
