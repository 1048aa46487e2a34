package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
)

// writerGrace is how long the end of a session waits for a write. amqp091-go v1.16.0 closes the socket of a dead
// connection only after such a write, which may take until the operating system gives up on the peer. The next session
// does not wait for that.
const writerGrace = time.Second

// run sends the queue, one session after the other, until ctx is done. It dials only when there is a message to send.
func (p *Publisher) run(ctx context.Context, l *link) {
	defer close(p.ended)
	defer func() {
		for _, o := range p.ledger.inState(queued) {
			p.ledger.withdraw(o, o.fail(false, ErrClosed))
		}
	}()
	defer l.close()
	var next *outgoing
	for {
		if next == nil {
			select {
			case next = <-p.queue:
			case <-ctx.Done():
				return
			}
		}
		s, err := l.session(ctx)
		switch {
		case err == nil:
			next = p.serve(s, l, next)
		case ctx.Err() != nil:
			return
		default:
			p.refuse(next, err)
			next = nil
		}
	}
}

// serve runs s to its end. It returns the message that was about to be written, if no byte of it was sent.
func (p *Publisher) serve(s *session, l *link, first *outgoing) (next *outgoing) {
	s.spawn(s.confirm)
	unsent := make(chan *outgoing, 1)
	go func() { unsent <- s.write(first) }()
	cause := s.watch(p.stop)
	close(s.ended)
	select {
	case next = <-unsent:
	case <-time.After(writerGrace):
		p.opts.Logger.Warn("publisher: a write is stuck in the lost connection")
		go func() {
			if o := <-unsent; o != nil {
				p.drop(o, o.fail(false, ErrConnectionLost))
			}
		}()
	}
	s.spawned.Wait()
	left := p.ledger.inState(writing)
	for i, v := range judge(left, cause) {
		p.settle(left[i], v.error(left[i], cause))
	}
	if s.confirmed.Load() {
		l.confirmed()
	}
	refused := cause.channel && overMessage(cause.closed) && len(left) > 0 // and the errors of these messages say why
	if !errors.Is(cause.err, errStopped) && !refused {
		p.opts.Logger.Warn("publisher: session lost", "error", cause.err)
	}
	return next
}

// refuse fails o and the queue for a reason that another try would not change.
func (p *Publisher) refuse(o *outgoing, cause error) {
	for {
		p.drop(o, refusal(o, cause))
		select {
		case o = <-p.queue:
		default:
			return
		}
	}
}

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

// link dials, and keeps the connection from one session to the next. Only run uses it.
type link struct {
	p       *Publisher
	dial    func(context.Context) (*amqp.Connection, error)
	conn    *connection
	backoff *backoff.ExponentialBackOff
	wait    time.Duration // before the next dial
	last    error         // of the last dial
}

// connection is a connection with its notifications. It outlives its sessions, and a listener cannot be removed.
type connection struct {
	*amqp.Connection
	// has room for the notices between two sessions: a full channel would block the library's reader
	blocked chan amqp.Blocking
	closed  chan *amqp.Error
}

func newLink(dial func(context.Context) (*amqp.Connection, error), p *Publisher) *link {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = firstBackoff, lastBackoff, 2
	return &link{p: p, dial: dial, backoff: b}
}

// session opens a session and dials as often as that takes. It fails only when ctx is done or another dial would not
// help.
func (l *link) session(ctx context.Context) (*session, error) {
	for {
		if err := l.connect(ctx); err != nil {
			return nil, err
		}
		s, err := l.open(ctx)
		if err == nil {
			l.p.trouble.Store(nil)
			l.p.opts.Logger.Info("publisher: channel open")
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		l.close() // the next try waits and dials
		l.failed(fmt.Errorf("opening a channel: %w", err))
	}
}

func (l *link) connect(ctx context.Context) error {
	for l.conn == nil || l.conn.IsClosed() {
		if l.conn = nil; !pause.For(ctx, l.wait) {
			return ctx.Err()
		}
		conn, err := broker.Connect(ctx, l.dial)
		before := l.last
		l.last = err
		switch {
		case err == nil:
			l.conn = &connection{conn, conn.NotifyBlocked(make(chan amqp.Blocking, 16)),
				conn.NotifyClose(make(chan *amqp.Error, 1))}
			// only a confirm resets it: a broker that accepts and hangs up is not dialled in a tight loop
			l.wait = l.backoff.NextBackOff()
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			l.failed(fmt.Errorf("no connection: %w", err))
			if broker.Permanent(err, before) {
				return err
			}
		}
	}
	return nil
}

// open opens a session's channel. The library's calls take no ctx; only closing the connection ends them.
func (l *link) open(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, l.p.opts.ConfirmTimeout)
	defer cancel()
	conn, closed := l.conn, make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		broker.HangUp(conn.Connection)
	})
	s, err := openSession(l.p, conn)
	if !stop() {
		<-closed
	}
	return s, err
}

func (l *link) failed(err error) {
	trouble := err.Error()
	l.p.trouble.Store(&trouble)
	l.wait = l.backoff.NextBackOff()
	l.p.opts.Logger.Warn("publisher: cannot reach the broker", "error", err, "next_try_in", l.wait)
}

func (l *link) confirmed() {
	l.backoff.Reset()
	l.wait = 0
}

func (l *link) close() {
	if l.conn != nil {
		broker.HangUp(l.conn.Connection)
	}
}
