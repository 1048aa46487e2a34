package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/semaphore"

	"github.com/strikesmq/strikes/consumer/internal/acks"
	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/internal/broker"
)

// openTimeout is how long a broker may take to accept a consumer. A basic.consume on a quorum queue that was just
// recovering from a kill was never answered (measured on 3.10.8), and amqp091-go waits without a bound.
const openTimeout = 10 * time.Second

// newSession returns a session of c, which has its defaults. It follows one with the rooms before.
func newSession(c Consumer, vhost string, before rooms) *session {
	return newSessionOn(c.Queue, c, vhost, before)
}

// newSessionOn is newSession for a queue that c calls by another name.
func newSessionOn(source string, c Consumer, vhost string, before rooms) *session {
	s := &session{
		settings: settings{c, cmp.Or(vhost, "/"), source}, late: ownerless, consuming: func() {}, ended: make(chan error, 1),
		end: func() {}, waiting: waitFor, look: func() {}, failed: func(*delivery) {}, lacking: func() {},
		lasts: func() <-chan struct{} { return atOnce }, dispatcher: dispatcher{isolation: ofProcess},
	}
	if c.Ordered && c.Retry == RetryInPlace {
		s.order = newOrder()
	}
	s.rooms = newRooms(s, before)
	return s
}

// prepare makes the session ready to take deliveries. Nothing new begins once ctx is done, and handlers are cancelled
// once live is, which is not before.
func (s *session) prepare(ctx, live context.Context) {
	c := s.Consumer
	s.live = live
	if s.workers == nil { // it does not share those of others
		s.workers = newWorkers(c.Concurrency, func() { s.acks.Wake() })
		s.slots = newSlots(c.Concurrency)
	}
	s.acks = acks.New(acks.Options[*delivery]{
		Prefetch: c.Prefetch, Idle: s.workers.idling, Together: s.together,
		Settled: func(d *delivery, err error) { s.settled(ctx, d, err) },
	})
}

// newSlots are for open attempts, two for each handler that may run.
func newSlots(concurrency int) *semaphore.Weighted {
	return semaphore.NewWeighted(2 * int64(concurrency))
}

func (s *session) open(conn *amqp.Connection) (*link, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("consumer: queue %q: opening a channel: %w", s.Queue, err)
	}
	l := &link{channel: ch, tag: "strikes-" + token(tokens.Add(1)).String()}
	l.together = func(send func()) error { return broker.Together(conn, send) }
	l.closed = ch.NotifyClose(make(chan *amqp.Error, 1))
	l.cancelled = ch.NotifyCancel(make(chan string, 1))
	l.alive = func() error {
		_, err := ch.QueueDeclarePassive(s.source, false, false, false, false, nil) // the queue replies, not only the channel
		return err
	}
	asked := time.Now()
	if err = ch.Qos(s.Prefetch, 0, false); err == nil {
		l.deliveries, err = ch.Consume(s.source, l.tag, false, false, false, false, nil)
	}
	if err != nil {
		_ = ch.Close() // the refusal has closed it already
		return nil, s.refusedBy(conn, l, asked, err)
	}
	return l, nil
}

// refusedBy distinguishes a refusal by the broker from a connection that broke.
func (s *session) refusedBy(conn *amqp.Connection, l *link, asked time.Time, err error) error {
	wrapped := fmt.Errorf("consumer: queue %q: consuming: %w", s.Queue, err)
	var reply *amqp.Error
	if !errors.As(err, &reply) {
		return wrapped
	}
	if errors.Is(err, amqp.ErrClosed) {
		reply = l.reason()
	}
	switch {
	case broker.Unanswered(reply, asked):
		return fmt.Errorf("consumer: queue %q: consuming: the queue did not answer, as a quorum queue without a majority "+
			"of its members: %w", s.Queue, reply)
	case broker.Unconverted(reply): // the broker was to deliver before it replied to basic.consume
		return s.lost(errLost, reply)
	case reply != nil && reply.Server && !conn.IsClosed():
		return refusal{wrapped}
	}
	return wrapped
}

// consume opens a channel and serves its deliveries until the session ends.
func (s *session) consume(ctx context.Context, conn *amqp.Connection) error {
	l, err := bound.Await(ctx, openTimeout, func() (*link, error) { return s.open(conn) }, func(l *link) {
		_ = l.channel.Close()
	})
	if errors.Is(err, bound.ErrNoReply) {
		return fmt.Errorf("consumer: queue %q: beginning to consume: %w", s.Queue, err)
	}
	if err == nil {
		err = s.serve(ctx, l)
	}
	s.report(ctx, err)
	return err
}

func (s *session) serve(ctx context.Context, l *link) error {
	live, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	stop, halt := context.WithCancel(ctx) // so that an error that a handler returns after it ended ctx is not counted
	s.link, s.together = l, l.together
	s.prepare(stop, live)
	s.consuming()
	s.isConsuming(true)
	level := slog.LevelInfo
	if s.again {
		level = slog.LevelWarn
	}
	s.Logger.Log(ctx, level, "consuming", "queue", s.Queue, "prefetch", s.Prefetch, "concurrency", s.Concurrency)

	var beside sync.WaitGroup
	for _, r := range s.rooms {
		beside.Go(func() { r.beside(stop) })
	}
	err := s.receive(ctx, stop, l)
	stopping := err == nil
	if !errors.Is(err, errCancelled) && !errors.Is(err, errLost) {
		s.acks.Hurry()
	}
	if !stopping {
		// The broker may have given up this consumer. So nothing is settled late, not even a handled message that waits for
		// END.
		s.acks.Pause()
	}
	halt()
	s.isConsuming(false) // it may take long
	beside.Wait()
	if stopping {
		err = s.drain(l)
	}
	if err != nil {
		s.hangUp(l) // mostly the channel is closed already
	}
	kill(cmp.Or(err, errDrained))
	late := bound.Within(settleTimeout, s.tasks.Wait)
	switch {
	case late != nil:
		err = errors.Join(err, late)
		s.hangUp(l) // the connection may live on, for other partitions
	case err == nil:
		err = s.closeChannel(l)
	}
	if err != nil && ctx.Err() != nil && !errors.Is(err, errPassed) { // the stop came before or after the loss
		return fmt.Errorf("%w: queue %q: %w", ErrUncleanStop, s.Queue, err)
	}
	return err
}

// hangUp closes the channel, so that the broker takes all deliveries back. None is settled after that.
func (s *session) hangUp(l *link) {
	s.acks.Pause()
	_ = bound.Within(closeTimeout, func() { _ = l.channel.Close() })
	s.acks.Hurry() // each is left
}

func (s *session) isConsuming(yes bool) {
	if s.Consuming != nil {
		s.guard("Consuming", func() { s.Consuming(yes) })
	}
}

// receive takes deliveries from the channel until ctx is done (nil) or the session ends. It takes them immediately, so
// that the time for which each may be held begins with its arrival.
func (s *session) receive(ctx, stop context.Context, l *link) error {
	deliveries := l.deliveries
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.ended:
			return s.explain(l, err)
		case _, ok := <-l.cancelled:
			if ok {
				return s.lost(errCancelled, nil)
			}
			l.cancelled = nil // closed with the channel, which says why
		case err := <-l.closed:
			return s.lost(errLost, err)
		case d, ok := <-deliveries:
			if !ok { // the reason follows on one of the others
				deliveries = nil
				continue
			}
			if s.arrived.passed() {
				return errPassed
			}
			if s.arrived.lacks(d.DeliveryTag) {
				s.lacking()
			}
			s.take(stop, d)
		case d := <-s.more:
			s.take(stop, d)
		}
	}
}
