package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/semaphore"

	"github.com/strikesmq/strikes/consumer/internal/acks"
	"github.com/strikesmq/strikes/internal/amqpdial"
)

// ErrUncleanStop is wrapped by Consume and Run when the session broke while it was being stopped. The last acks may not
// have reached the broker, and their messages may be handled again; nothing was counted.
var ErrUncleanStop = errors.New("consumer: stopping: the last acks may be lost")

// ErrStuck is wrapped by Run and Consume when ten times the Concurrency of handlers have passed their deadlines and
// not returned. Their resources cannot be reclaimed; restart the process. No other message was counted for that.
var ErrStuck = errors.New("consumer: too many handlers hang")

// Why a session ends before its context is done. Run begins another.
var (
	errLost      = errors.New("the connection was lost")
	errCancelled = errors.New("the broker cancelled the consumer: the queue was deleted or moved, or a delivery was " +
		"held beyond the consumer timeout")
	errDrained = errors.New("the time to drain is over")
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
	Consumer        // with every default in place
	vhost    string // of the connection

	delayQueues     *delayQueues // if nil, no message is moved
	isolation       *isolation   // of the process
	late            *late        // steps that the store did not take in time
	route           *route       // that dead letters take; if nil, it is not checked
	deadLettersFrom time.Time    // dead letters are held until then

	consuming func()   // called when the broker has accepted the consumer
	control   *control // of the queue; nil: its Counter has none

	acks     *acks.Batcher[*delivery] // of the unsettled deliveries
	lanes    *lanes                   // if ordered in place
	holds    *holds                   // of its lanes, if dead letters hold them
	link     *link                    // once it consumes
	workers  *workers
	slots    *semaphore.Weighted // for open attempts
	watchdog *watchdog
	live     context.Context //nolint:containedctx // parent of those that handlers get; it outlives the one that ends a session

	tasks sync.WaitGroup // deliveries that are not done with
	ended chan error     // the first error that ends the session from within

	received int       // deliveries so far
	last     string    // id of the last of them
	careful  bool      // an undecodable message may be in the queue
	began    time.Time // if careful

	undecoded   string // what is wrong with the message that ended it, and where it is; empty: none did
	unconverted bool   // the broker could not convert it
}

// newSession returns a session of c, which has its defaults.
func newSession(c Consumer, vhost string) *session {
	s := &session{
		Consumer: c, vhost: cmp.Or(vhost, "/"), isolation: ofProcess, late: ownerless, consuming: func() {},
		ended: make(chan error, 1),
	}
	if c.Ordered && c.Retry == RetryInPlace {
		s.lanes = newLanes()
	}
	if store, ok := c.Counter.(LaneKeeper); ok && c.HoldLanes && c.Lane != nil {
		s.holds = newHolds(s, store)
	}
	return s
}

// prepare makes the session ready to take deliveries. Nothing new begins once ctx is done, and handlers are cancelled
// once live is, which is not before. The caller ends the session with the function that prepare returns.
func (s *session) prepare(ctx, live context.Context) (end func()) {
	c := s.Consumer
	s.live = live
	s.workers = newWorkers(c.Concurrency, func() { s.acks.Wake() })
	s.slots = semaphore.NewWeighted(2 * int64(c.Concurrency))
	s.acks = acks.New(acks.Options[*delivery]{
		Prefetch: c.Prefetch, Each: c.AckEach, Idle: s.workers.idling,
		Settled: func(d *delivery, err error) { s.settled(ctx, d, err) },
	})
	s.watchdog = newWatchdog(s.HandlerTimeout, func(c *call) { s.abandon(ctx, c) })
	calm := context.AfterFunc(live, s.watchdog.hasten)
	return func() {
		calm()
		s.watchdog.stop()
	}
}

// link is the session's side of the wire.
type link struct {
	channel    wire
	alive      func() error // asks the broker, of a session that holds lanes
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
	l := &link{channel: ch, tag: "strikes-" + token(tokens.Add(1)).String(),
		lost: conn.NotifyClose(make(chan *amqp.Error, 1))}
	l.closed = ch.NotifyClose(make(chan *amqp.Error, 1))
	l.cancelled = ch.NotifyCancel(make(chan string, 1))
	l.alive = func() error {
		_, err := ch.QueueDeclarePassive(s.Queue, false, false, false, false, nil) // the queue replies, not only the channel
		return err
	}
	asked := time.Now()
	if err = ch.Qos(s.Prefetch, 0, false); err == nil {
		l.deliveries, err = ch.Consume(s.Queue, l.tag, false, false, false, false, nil)
	}
	if err != nil {
		_ = ch.Close() // closed already by what refused
		return nil, s.refusedBy(conn, l, asked, err)
	}
	return l, nil
}

// reason returns why the channel closed, which the library says a moment after what failed because of that; nil if it
// does not.
func (l *link) reason() (says *amqp.Error) {
	patience := time.NewTimer(closeTimeout / 10)
	defer patience.Stop()
	select {
	case says = <-l.closed:
	case says = <-l.lost:
	case <-patience.C:
	}
	return says
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
	case amqpdial.Unanswered(reply, asked):
		return fmt.Errorf("consumer: queue %q: consuming: the queue did not answer, as a quorum queue without a majority "+
			"of its members: %w", s.Queue, reply)
	case amqpdial.Unconverted(reply): // the broker was to deliver before it replied to basic.consume
		return s.lost(errLost, reply)
	case reply != nil && reply.Server && !conn.IsClosed():
		return refusal{wrapped}
	}
	return wrapped
}

// consume opens a channel and serves its deliveries until the session ends.
func (s *session) consume(ctx context.Context, conn *amqp.Connection) error {
	l, err := await(ctx, openTimeout, func() (*link, error) { return s.open(conn) }, func(l *link) {
		_ = l.channel.Close()
	})
	if errors.Is(err, errNoReply) {
		return fmt.Errorf("consumer: queue %q: beginning to consume: %w", s.Queue, err)
	}
	if err != nil {
		s.report(ctx, err)
		return err
	}
	return s.ofLink(ctx, l)
}

// ofLink serves the deliveries of a channel.
func (s *session) ofLink(ctx context.Context, l *link) error {
	err := s.serve(ctx, l)
	s.report(ctx, err)
	return err
}

func (s *session) serve(ctx context.Context, l *link) error {
	live, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	stop, halt := context.WithCancel(ctx) // so that what a handler returns after it ended ctx is not counted
	s.link = l
	defer s.prepare(stop, live)()
	s.consuming()
	s.isConsuming(true)
	s.Logger.Info("consuming", "queue", s.Queue, "prefetch", s.Prefetch, "concurrency", s.Concurrency)

	renewed := s.keepHolds(stop)
	err := s.receive(ctx, stop, l)
	s.isConsuming(false)
	stopping := err == nil
	halt()
	<-renewed
	if !errors.Is(err, errCancelled) && !errors.Is(err, errLost) {
		s.acks.Hurry()
	}
	if stopping {
		s.Logger.Info("draining: handlers that run may finish", "queue", s.Queue, "within", max(s.DrainTimeout, 0))
		err = s.drain(l)
	}
	if err != nil { // settle nothing late: the broker may take it for a consumer that it has given up
		s.acks.Pause()
		_ = within(closeTimeout, func() { _ = l.channel.Close() }) // mostly it is closed already
		s.acks.Hurry()                                             // each is left
	}
	kill(cmp.Or(err, errDrained))
	err = errors.Join(err, within(settleTimeout, s.tasks.Wait))
	if err == nil {
		err = s.closeChannel(l)
	}
	if stopping && err != nil {
		return fmt.Errorf("%w: queue %q: %w", ErrUncleanStop, s.Queue, err)
	}
	return err
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
		case err := <-l.lost:
			return s.lost(errLost, err)
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

// fail ends the session, unless something else ends it already.
func (s *session) fail(err error) {
	select {
	case s.ended <- err:
	default:
	}
}
