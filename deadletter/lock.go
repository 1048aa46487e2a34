package deadletter

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// lockSuffix ends the name of the exclusive queue that a session declares while it works on a dead-letter queue.
const lockSuffix = ".strikes-lock"

// longestName is the most bytes that a queue's name has.
const longestName = 255

// lock keeps other sessions off the queue until the connection ends, before anything is delivered. A quorum queue does
// not enforce exclusive consumers, and a consumer that finds another beside it has already changed the order. So the
// lock is an exclusive queue. Without the permission to configure that queue there is no lock: sessions that begin
// together may all find the queue busy.
func (s *session) lock(ctx context.Context) error {
	if len(s.queue+lockSuffix) > longestName {
		return nil
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for begun := time.Now(); ; {
		err := s.tryLock()
		var reply *amqp.Error
		switch {
		case err == nil, !errors.As(err, &reply), s.conn.IsClosed():
			return err
		case reply.Code != amqp.ResourceLocked: // the user may not declare it
			return nil
		case time.Since(begun) > lingers:
			return s.locked()
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryLock declares the queue. Its error closes only the channel.
func (s *session) tryLock() error {
	ch, err := s.conn.Channel()
	if err != nil {
		return err
	}
	_, err = ch.QueueDeclare(s.queue+lockSuffix, false, false, true, false, amqp.Table{"x-queue-type": "classic"})
	if err == nil {
		return ch.Close()
	}
	return err
}

// locked returns the error for a lock that another session has.
func (s *session) locked() error {
	now, err := broker.Passive(s.ch, s.queue)
	if err != nil {
		return err
	}
	return &busyError{now}
}
