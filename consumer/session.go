package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// ErrUncleanStop is wrapped by Consume and Run when the session broke while it was being stopped. The last acks may not have
// reached the broker, and their messages may be handled again; nothing was charged for that.
var ErrUncleanStop = errors.New("consumer: stopping: the last acks may be lost")

// Why a session ends before its context is done. Run begins another.
var (
	errLost      = errors.New("the connection was lost")
	errCancelled = errors.New("the broker cancelled the consumer: the queue was deleted or moved, or a delivery was held beyond the consumer timeout")
	errDrained   = errors.New("the time to drain is over")
)

// closeTimeout bounds the last exchange with a broker that may not answer.
const closeTimeout = 5 * time.Second

// session is one channel and the deliveries that came with it. None of them outlives it.
type session struct {
	Consumer
	settler *Settler

	consuming func() // called once the broker has accepted the consumer

	ready  chan *attempt  // may run as soon as a worker is free; there is room for every delivery that is unsettled
	tasks  sync.WaitGroup // deliveries that are not done with
	failed chan error     // the first error that ends the session from within
}

func newSession(c Consumer, settler *Settler) *session {
	return &session{Consumer: c, settler: settler, consuming: func() {}, ready: make(chan *attempt, c.Prefetch), failed: make(chan error, 1)}
}

// link is the session's side of the wire.
type link struct {
	channel    *amqp.Channel
	tag        string
	deliveries <-chan amqp.Delivery
	closed     chan *amqp.Error
	cancelled  chan string
}

func (s *session) open(conn *amqp.Connection) (*link, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("consumer: queue %q: opening a channel: %w", s.Queue, err)
	}
	l := &link{channel: ch, tag: "strikes-" + newToken()}
	l.closed = ch.NotifyClose(make(chan *amqp.Error, 1))
	l.cancelled = ch.NotifyCancel(make(chan string, 1))
	if err = ch.Qos(s.Prefetch, 0, false); err == nil {
		l.deliveries, err = ch.Consume(s.Queue, l.tag, false, false, false, false, nil)
	}
	if err != nil {
		_ = ch.Close() // closed already by what refused
		return nil, s.refusedBy(conn, err)
	}
	return l, nil
}

// refusedBy tells an answer of the broker to this consumer from a connection that broke.
func (s *session) refusedBy(conn *amqp.Connection, err error) error {
	wrapped := fmt.Errorf("consumer: queue %q: consuming: %w", s.Queue, err)
	var answer *amqp.Error
	if errors.As(err, &answer) && answer.Server && !conn.IsClosed() {
		return refusal{wrapped}
	}
	return wrapped
}

// consume runs the session to its end.
func (s *session) consume(ctx context.Context, conn *amqp.Connection) error {
	l, err := s.open(conn)
	if err != nil {
		return err
	}
	live, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	stop, halt := context.WithCancel(live)
	quit := make(chan struct{})
	var workers sync.WaitGroup
	for range s.Concurrency {
		workers.Go(func() { s.work(stop, live, quit) })
	}
	s.consuming()
	s.settler.Logger.Info("consuming", "queue", s.Queue, "prefetch", s.Prefetch, "concurrency", s.Concurrency)

	err = s.receive(ctx, stop, l)
	stopping := err == nil
	halt()
	if stopping {
		err = s.drain(l)
	}
	kill(cmp.Or(err, errDrained))
	s.tasks.Wait()
	close(quit)
	workers.Wait()
	err = s.close(l, err)
	if stopping && err != nil {
		return fmt.Errorf("%w: queue %q: %w", ErrUncleanStop, s.Queue, err)
	}
	return err
}

// receive takes deliveries from the channel until ctx is done (nil) or the session ends. It takes them at once, so that
// the time for which each may be held begins with its arrival.
func (s *session) receive(ctx, stop context.Context, l *link) error {
	deliveries := l.deliveries
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.failed:
			return err
		case tag := <-l.cancelled:
			return fmt.Errorf("consumer: queue %q: consumer %s: %w", s.Queue, tag, errCancelled)
		case err := <-l.closed:
			return s.lost(err)
		case d, ok := <-deliveries:
			if !ok { // the reason follows on one of the others
				deliveries = nil
				continue
			}
			s.tasks.Add(1)
			s.proceed(stop, s.settler.receive(d))
		}
	}
}

func (s *session) lost(err *amqp.Error) error {
	if err == nil {
		return fmt.Errorf("consumer: queue %q: %w", s.Queue, errLost)
	}
	return fmt.Errorf("consumer: queue %q: %w: %w", s.Queue, errLost, err)
}

// proceed hands a delivery on to where its next step is taken. What may take time, because it waits for the store or out
// of a backoff, gets a goroutine of its own, so that it keeps neither a worker nor the receiver.
func (s *session) proceed(stop context.Context, a *attempt) {
	switch a.next {
	case stepRun, stepRunAlone:
		s.ready <- a
	case stepAck, stepRequeue, stepDeadLetter, stepDone:
		s.finish(stop, a)
	default:
		go s.finish(stop, a)
	}
}

// finish takes steps until the handler is to run, or the delivery is done with.
func (s *session) finish(stop context.Context, a *attempt) {
	s.settler.advance(stop, a)
	if a.next != stepDone {
		s.ready <- a
		return
	}
	if a.err != nil {
		select {
		case s.failed <- a.err:
		default:
		}
	}
	s.tasks.Done()
}

// work runs handlers, one at a time. While the session stops it only passes on what is ready, to be left.
func (s *session) work(stop, live context.Context, quit <-chan struct{}) {
	for {
		select {
		case a := <-s.ready:
			s.settler.try(stop, live, a, s.Handler)
			s.proceed(stop, a)
		case <-quit:
			return
		}
	}
}

// drain waits for what runs, for as long as it may.
func (s *session) drain(l *link) error {
	done := make(chan struct{})
	go func() { s.tasks.Wait(); close(done) }()
	patience := time.NewTimer(max(s.DrainTimeout, 0))
	defer patience.Stop()
	select {
	case <-done:
		return nil
	case <-patience.C:
		s.settler.Logger.Warn("handlers are cancelled: they did not end within the DrainTimeout", "queue", s.Queue)
		return nil
	case err := <-l.closed:
		return s.lost(err)
	}
}

// close ends the channel. After a clean stop it makes sure that the acks have arrived: up to 467 of 500 were lost by a
// plain close on a quorum queue (measured on 3.10.8, 4.0.5 and 4.3.6), none after basic.cancel.
func (s *session) close(l *link, cause error) error {
	closing := make(chan error, 1)
	go func() {
		if cause != nil {
			_ = l.channel.Close() // it is closed, or the broker is gone; either way the deliveries return
			closing <- cause
			return
		}
		err := l.channel.Cancel(l.tag, false)
		if err == nil {
			err = l.channel.Qos(s.Prefetch, 0, false)
		}
		closing <- errors.Join(err, l.channel.Close())
	}()
	patience := time.NewTimer(closeTimeout)
	defer patience.Stop()
	select {
	case err := <-closing:
		return err
	case <-patience.C:
		return errors.Join(cause, fmt.Errorf("the broker did not answer for %v", closeTimeout))
	}
}

// neverServes reports whether no waiting will make this store count.
func neverServes(err error) bool {
	var store *counter.StoreError
	if errors.As(err, &store) {
		return store.Cause == counter.Denied || store.Cause == counter.NotRedis
	}
	return true
}
