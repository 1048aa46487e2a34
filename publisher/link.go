package publisher

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/amqpdial"
)

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

func newLink(dial func(context.Context) (*amqp.Connection, error), p *Publisher) *link {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = firstBackoff, lastBackoff, 2
	return &link{p: p, dial: dial, backoff: b}
}

// session opens a session, dialling as often as it takes. It fails only when
// ctx is done, or for good reason (see permanent).
func (l *link) session(ctx context.Context) (*session, error) {
	for {
		if err := l.connect(ctx); err != nil {
			return nil, err
		}
		s, err := l.open(ctx)
		if err == nil {
			l.p.setTrouble("")
			l.p.opts.Logger.Info("publisher: channel open")
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		l.close() // so that the next try pauses, and dials
		l.failed(fmt.Errorf("opening a channel: %w", err))
	}
}

func (l *link) connect(ctx context.Context) error {
	for l.conn == nil || l.conn.IsClosed() {
		if l.conn = nil; !pause(ctx, l.wait) {
			return ctx.Err()
		}
		conn, err := l.dialOnce(ctx)
		before := l.last
		l.last = err
		switch {
		case err == nil:
			l.conn = newConnection(conn)
			// Spent only by a confirm: a broker that accepts and then hangs up
			// would be dialled in a tight loop.
			l.wait = l.backoff.NextBackOff()
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			err = clean(err)
			l.failed(fmt.Errorf("no connection: %w", err))
			if permanent(err, before) {
				return err
			}
		}
	}
	return nil
}

func (l *link) dialOnce(ctx context.Context) (*amqp.Connection, error) {
	conn, err := l.dial(ctx)
	switch {
	case err != nil && conn == nil:
		return nil, err
	case conn == nil:
		return nil, misuse("dial returned neither a connection nor an error")
	case err == nil && ctx.Err() != nil:
		err = ctx.Err()
	case err == nil && conn.Config.Recovery != nil:
		err = misuse("the connection has automatic recovery on: leave amqp.Config.Recovery nil")
	}
	if err != nil {
		// amqp.Dial returns the connection beside the error of a failed handshake.
		newConnection(conn).close()
		return nil, err
	}
	return conn, nil
}

// open opens a session's channel. The library's calls know no ctx: closing the
// connection is the only way to end them.
func (l *link) open(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, l.p.opts.ConfirmTimeout)
	defer cancel()
	conn, closed := l.conn, make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		conn.close()
	})
	s, err := openSession(l.p, conn)
	if !stop() {
		<-closed
	}
	return s, err
}

func (l *link) failed(err error) {
	l.p.setTrouble(err.Error())
	l.wait = l.backoff.NextBackOff()
	l.p.opts.Logger.Warn("publisher: cannot reach the broker", "error", err, "next_try_in", l.wait)
}

func (l *link) confirmed() {
	l.backoff.Reset()
	l.wait = 0
}

func (l *link) close() {
	if l.conn != nil {
		l.conn.close()
	}
}

// misuse is an error that dial will make again.
type misuse string

func (m misuse) Error() string { return string(m) }

// permanent is true if dialling again would not help: the broker refuses, or
// dial is misused.
func permanent(err, before error) bool {
	var refused *FieldError
	var m misuse
	return amqpdial.Refused(err, before) || errors.As(err, &refused) || errors.As(err, &m)
}

// clean drops a URL, and the password in it, from a dial error.
func clean(err error) error {
	var bad *url.Error
	if errors.As(err, &bad) {
		return misuse("the broker's URL must be " + amqpdial.Form + ", got one that cannot be parsed")
	}
	return err
}

// pause waits for d; false: ctx was done first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
