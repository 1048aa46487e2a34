package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ErrUncleanStop is wrapped by Consume and Run when the session broke while it was being stopped. The last acks may not have
// reached the broker, and their messages may be handled again; nothing was charged for that.
var ErrUncleanStop = errors.New("consumer: stopping: the last acks may be lost")

// ErrStuck is wrapped by Run and Consume when MaxStuck handlers of the process have passed their deadlines and not returned.
// Their resources cannot be reclaimed; restart the process. No other message was counted for that.
var ErrStuck = errors.New("consumer: too many handlers hang")

// Why a session ends before its context is done. Run begins another.
var (
	errLost      = errors.New("the connection was lost")
	errCancelled = errors.New("the broker cancelled the consumer: the queue was deleted or moved, or a delivery was held beyond the consumer timeout")
	errDrained   = errors.New("the time to drain is over")
)

const (
	// closeTimeout bounds the last exchange with a broker that may not answer.
	closeTimeout = 5 * time.Second

	// settleTimeout bounds the wait for what remains to be done with deliveries once their handlers are cancelled. Only an
	// ack whose write hangs takes longer; its goroutine ends with the socket.
	settleTimeout = abandonAfter + 2*stepTimeout + closeTimeout

	// pendingAcks is how many acks a clean close of the channel keeps on a quorum queue.
	pendingAcks = 30
)

// session is one channel and the deliveries that came with it. None of them outlives it.
type session struct {
	Consumer
	settler *Settler

	consuming func() // called once the broker has accepted the consumer

	window *window        // of the unsettled deliveries
	lanes  *lanes         // if ordered in place
	ready  chan *attempt  // may run as soon as a worker is free; there is room for every delivery that is unsettled
	tasks  sync.WaitGroup // deliveries that are not done with
	failed chan error     // the first error that ends the session from within

	received int       // deliveries so far
	last     string    // id of the last of them
	careful  bool      // an undecodable message may be in the queue
	began    time.Time // if careful
	wrong    string    // what is wrong with the undecodable message that ended it
}

func newSession(c Consumer, settler *Settler) *session {
	s := &session{Consumer: c, settler: settler, consuming: func() {}, ready: make(chan *attempt, c.Prefetch), failed: make(chan error, 1)}
	s.settler.runs = true
	if c.Ordered && settler.Retry == InPlace {
		s.lanes, s.settler.ordered = newLanes(), true
	}
	return s
}

// link is the session's side of the wire.
type link struct {
	channel    wire
	tag        string
	deliveries <-chan amqp.Delivery
	closed     <-chan *amqp.Error // the channel
	lost       <-chan *amqp.Error // the connection, which hears of it first
	cancelled  <-chan string
}

// wire is what a session needs of its *amqp.Channel once it consumes.
type wire interface {
	Cancel(tag string, noWait bool) error
	Consume(queue, tag string, autoAck, exclusive, noLocal, noWait bool, args amqp.Table) (<-chan amqp.Delivery, error)
	Close() error
}

func (s *session) open(conn *amqp.Connection) (*link, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("consumer: queue %q: opening a channel: %w", s.Queue, err)
	}
	l := &link{channel: ch, tag: "strikes-" + token(runs.Add(1)).String(), lost: conn.NotifyClose(make(chan *amqp.Error, 1))}
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

// consume opens a channel and serves its deliveries until the session ends.
func (s *session) consume(ctx context.Context, conn *amqp.Connection) error {
	l, err := answered(ctx, openTimeout, func() (*link, error) { return s.open(conn) }, func(l *link) { _ = l.channel.Close() })
	if errors.Is(err, errUnanswered) {
		return fmt.Errorf("consumer: queue %q: beginning to consume: %w", s.Queue, err)
	}
	if err != nil {
		return err
	}
	return s.ofLink(ctx, l)
}

// ofLink serves the deliveries of a channel, and reports an undecodable message that ended it.
func (s *session) ofLink(ctx context.Context, l *link) error {
	err := s.serve(ctx, l)
	if errors.Is(err, ErrUndecodable) {
		s.report(ctx, err)
	}
	return err
}

func (s *session) serve(ctx context.Context, l *link) error {
	live, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	stop, halt := context.WithCancel(ctx) // so that what a handler returns after it ended ctx is not charged
	quit := make(chan struct{})
	s.window = newWindow(s.Prefetch, s.AckEach, func(a *attempt, err error) { s.settled(stop, a, err) })
	s.settler.flush = s.window.flush
	var workers sync.WaitGroup
	for range s.Concurrency {
		workers.Go(func() { s.work(stop, live, quit) })
	}
	s.consuming()
	s.settler.Logger.Info("consuming", "queue", s.Queue, "prefetch", s.Prefetch, "concurrency", s.Concurrency)

	err := s.receive(ctx, stop, l)
	stopping := err == nil
	halt()
	if !errors.Is(err, errCancelled) && !errors.Is(err, errLost) {
		s.window.hurry()
	}
	if stopping {
		err = s.drain(l)
	}
	if err != nil { // settle nothing late: the broker may take it for a consumer that it has given up
		s.window.pause()
		_ = within(closeTimeout, func() { _ = l.channel.Close() }) // mostly it is closed already
		s.window.hurry()                                           // each is left
	}
	kill(cmp.Or(err, errDrained))
	err = errors.Join(err, within(settleTimeout, func() {
		s.tasks.Wait()
		close(quit)
		workers.Wait()
	}))
	if err == nil {
		err = s.close(l)
	}
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
			return s.really(l, err)
		case _, ok := <-l.cancelled:
			if ok {
				return s.ended(errCancelled, nil)
			}
			l.cancelled = nil // closed with the channel, which says why
		case err := <-l.closed:
			return s.ended(errLost, err)
		case err := <-l.lost:
			return s.ended(errLost, err)
		case d, ok := <-deliveries:
			if !ok { // the reason follows on one of the others
				deliveries = nil
				continue
			}
			if s.passed() {
				return errPassed
			}
			s.take(stop, d)
		}
	}
}

// take begins with a delivery.
func (s *session) take(stop context.Context, d amqp.Delivery) {
	s.tasks.Add(1)
	a := s.settler.receive(d)
	s.received, s.last = s.received+1, a.message.ID
	if s.Lane != nil {
		s.settler.guard("Lane", func() { a.lane = s.Lane(a.shown()) })
	}
	s.window.open(a)
	if s.lanes.enter(a) {
		s.proceed(stop, a)
	}
}

// proceed hands a delivery on to where its next step is taken. What may take time, because it waits for the store or out
// of a backoff, gets a goroutine of its own, so that it keeps neither a worker nor the receiver.
func (s *session) proceed(stop context.Context, a *attempt) {
	switch a.next {
	case stepRun, stepRunAlone:
		s.ready <- a
	case stepAck, stepRequeue, stepDone:
		s.finish(stop, a)
	default:
		go s.finish(stop, a)
	}
}

// finish takes steps until the handler is to run, or the delivery is decided. What waits behind one that was handled goes on
// then.
func (s *session) finish(stop context.Context, a *attempt) {
	s.settler.advance(stop, a)
	switch a.next {
	case stepAck:
		s.follow(stop, a, true)
		s.window.settle(a)
	case stepRequeue, stepDeadLetter: // deliveries behind it go on once that is sent
		if s.lanes.waits(a) {
			s.window.settleNow(a)
		} else {
			s.window.settle(a)
		}
	case stepDone: // left
		s.follow(stop, a, false)
		s.over(a)
	default:
		s.ready <- a
	}
}

// settled is told of each delivery whose ack or nack was sent, or could not be. What waits behind one that failed goes on
// only now: a dead letter that was not sent would come back behind it.
func (s *session) settled(stop context.Context, a *attempt, err error) {
	failed := a.next != stepAck
	s.settler.settled(stop, a, err)
	if failed {
		s.follow(stop, a, a.outcome == DeadLettered)
	}
	s.over(a)
}

// follow goes on with what waits behind a delivery.
func (s *session) follow(stop context.Context, a *attempt, done bool) {
	if next := s.lanes.next(a, done); next != nil {
		s.proceed(stop, next)
	}
}

// over is told of a delivery that nothing more is done with.
func (s *session) over(a *attempt) {
	if a.err != nil {
		s.fail(a.err)
	}
	s.tasks.Done()
}

// fail ends the session, unless something else ends it already.
func (s *session) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// work runs handlers, one at a time. While the session stops it only passes on what is ready, to be left.
func (s *session) work(stop, live context.Context, quit <-chan struct{}) {
	for a := s.next(quit); a != nil; a = s.next(quit) {
		s.settler.try(stop, live, a, s.Handler)
		if n := s.settler.isolation.abandoned.Load(); s.MaxStuck > 0 && n >= int64(s.MaxStuck) {
			s.fail(fmt.Errorf("%w: queue %q: %d were abandoned at their deadlines and still run; restart the process", ErrStuck, s.Queue, n))
		}
		if s.lanes != nil && s.Lane == nil { // all else waits for this delivery
			s.finish(stop, a)
		} else {
			s.proceed(stop, a)
		}
	}
}

// next waits for a delivery that may run; nil if there will be none.
func (s *session) next(quit <-chan struct{}) *attempt {
	select {
	case a := <-s.ready:
		return a
	default:
	}
	s.window.idles()
	defer s.window.works()
	select {
	case a := <-s.ready:
		return a
	case <-quit:
		return nil
	}
}
