package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/setting"
)

// A Publisher publishes with confirms on a connection of its own. It is safe for concurrent use: each Publish waits for
// its own confirm while other messages are sent. Close it when done.
type Publisher struct {
	opts   Options
	ledger *ledger
	slots  chan struct{}  // holds one for each message in the window
	queue  chan *outgoing // as large as slots, so a send never blocks

	closing <-chan struct{} // closed when Close begins: no new messages
	cancel  context.CancelFunc
	stop    chan struct{} // closed later by Close: end the session
	ended   chan struct{} // closed by run when all messages are settled
	once    sync.Once     // of Close
	closed  error         // by Close

	trouble atomic.Pointer[string] // why no message is being sent; nil if messages are sent
}

// Dialer returns a dial for New. It does the same as consumer.Dialer, for programs that import no consumer. On such a
// connection a Publisher sends the messages that many goroutines publish at the same time together, so it is faster
// than on another one.
func Dialer(url string, config amqp.Config) func(context.Context) (*amqp.Connection, error) {
	return func(ctx context.Context) (*amqp.Connection, error) {
		return broker.Dial(ctx, url, config)
	}
}

// New returns a Publisher that connects with dial. The first Publish connects. nil opts means all defaults.
//
// dial returns a new connection each time; the Publisher closes it. amqp.Config.Recovery must be nil, because automatic
// recovery restarts the numbers of the confirms: Publish refuses such a connection. Close waits for dial, so dial
// should return when its ctx is done. Dialer returns a suitable dial.
func New(dial func(context.Context) (*amqp.Connection, error), opts *Options) (*Publisher, error) {
	if dial == nil {
		return nil, errors.New("publisher: dial is nil: give a function that returns a new *amqp.Connection")
	}
	o := opts.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Publisher{
		opts:    o,
		ledger:  newLedger(),
		slots:   make(chan struct{}, o.Window),
		queue:   make(chan *outgoing, o.Window),
		closing: ctx.Done(),
		cancel:  cancel,
		stop:    make(chan struct{}),
		ended:   make(chan struct{}),
	}
	go p.run(ctx, newLink(dial, p))
	return p, nil
}

// Publish publishes msg to exchange and waits for the broker's confirm. The exchange "" is the default exchange, whose
// key is the name of a queue. Publish always returns the MessageId. The error is an *Error unless the broker confirmed
// the message and did not return it.
//
// Publish sets a missing MessageId, and a DeliveryMode of zero to Persistent; amqp.Transient stays. The rest is sent
// unchanged.
//
// Without a connection Publish waits for one until ctx is done, so give ctx a deadline. Only a refusal (wrong password,
// no access to the vhost) is returned immediately. If ctx ends before the message is sent, it is never sent. If ctx
// ends later, Error.Undecided is true and the message may still be sent: do not change msg.Body and msg.Headers until
// Close. You may publish them again with the id.
//
// Concurrent calls with the same exchange, key and MessageId run one after the other.
func (p *Publisher) Publish(ctx context.Context, exchange, key string, msg amqp.Publishing) (id string, err error) {
	o := newOutgoing(exchange, key, &msg)
	if err := p.start(ctx, o); err != nil {
		return o.msg.MessageId, err
	}
	return o.msg.MessageId, p.wait(ctx, o)
}

// start puts o in the queue. After an error it is not there.
func (p *Publisher) start(ctx context.Context, o *outgoing) (err error) {
	if o.headerSize, err = broker.HeaderSize(o.exchange, o.key, &o.msg); err != nil {
		return o.fail(false, fmt.Errorf("%w: %w", ErrInvalid, err))
	}
	if ctx.Err() != nil {
		return o.fail(false, p.gaveUp(ctx, "not sent"))
	}
	if err := p.enter(ctx, o); err != nil {
		return o.fail(false, err)
	}
	select {
	case p.slots <- struct{}{}:
		p.queue <- o
		return nil
	case <-ctx.Done():
		err = o.fail(false, p.gaveUp(ctx, "not sent"))
	case <-p.closing:
		err = o.fail(false, ErrClosed)
	}
	p.ledger.withdraw(o, err)
	return err
}

// enter adds o to the ledger once no other message with its route is there.
func (p *Publisher) enter(ctx context.Context, o *outgoing) error {
	for {
		other, err := p.ledger.add(o)
		if other == nil {
			return err
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return p.gaveUp(ctx, "not sent")
		case <-p.closing:
			return ErrClosed
		}
	}
}

func (p *Publisher) wait(ctx context.Context, o *outgoing) error {
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
	}
	if err := o.fail(false, p.gaveUp(ctx, "not sent")); p.ledger.withdraw(o, err) {
		return err
	}
	select {
	case <-o.done: // both were ready: the outcome says more than ctx
		return o.err
	default:
		return o.fail(true, p.gaveUp(ctx, "no confirm yet"))
	}
}

// settle settles a message that has left the queue, and frees its slot.
func (p *Publisher) settle(o *outgoing, otherwise error) {
	if p.ledger.settle(o, otherwise) {
		p.freeSlot()
	}
}

// drop settles a message that has left the queue and of which no byte was sent, and frees its slot. The caller of
// Publish may have given it up before.
func (p *Publisher) drop(o *outgoing, err error) {
	p.ledger.withdraw(o, err)
	p.freeSlot()
}

func (p *Publisher) freeSlot() { <-p.slots }

// gaveUp returns the error of a caller that waits no longer.
func (p *Publisher) gaveUp(ctx context.Context, where string) error {
	if trouble := p.trouble.Load(); trouble != nil {
		where += ": " + *trouble
	}
	return fmt.Errorf("publisher: %s: %w", where, ctx.Err())
}

// Close refuses new messages, waits up to ConfirmTimeout for the confirms of accepted ones, and closes the connection.
// Messages that wait for a connection fail with ErrClosed. Messages without confirm fail with ErrConnectionLost, and
// Close returns their number. Every call waits until all is done and returns the same error. A write that hangs in a
// lost connection may outlive Close, until the operating system ends it.
func (p *Publisher) Close() error { return p.CloseWithin(p.opts.ConfirmTimeout) }

// CloseWithin is Close, but waits up to limit for the confirms. It is for a program that gives up, for example because
// it is interrupted while an alarm keeps the broker from confirming.
func (p *Publisher) CloseWithin(limit time.Duration) error {
	p.once.Do(func() { p.closed = p.shutDown(limit) })
	return p.closed
}

func (p *Publisher) shutDown(within time.Duration) error {
	p.ledger.close()
	p.cancel()
	select {
	case <-p.ledger.empty:
	case <-p.ended:
	case <-time.After(within):
	}
	left := len(p.ledger.inState(queued)) + len(p.ledger.inState(writing))
	close(p.stop)
	<-p.ended
	if left > 0 {
		return fmt.Errorf("publisher: closed, but unconfirmed after %v: messages: %d; the error of each Publish says what "+
			"is known", within, left)
	}
	return nil
}

// Message is one message of a batch and its destination.
type Message struct {
	Exchange string // "" is the default exchange
	Key      string // routing key; with the default exchange, the queue
	amqp.Publishing
}

// BatchError is the error of PublishAll if any message failed.
type BatchError struct {
	// Errs has an entry for each message of the batch, at the same index: nil if it was confirmed, else its *Error.
	Errs []error
}

func (e *BatchError) Error() string {
	failed := e.Unwrap()
	return fmt.Sprintf("publisher: %d of %s failed; the first error: %v", len(failed),
		printable.Plural(len(e.Errs), "message"), failed[0])
}

// Unwrap returns the errors of the messages that failed.
func (e *BatchError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e.Errs), func(err error) bool { return err == nil })
}

// PublishAll publishes msgs as Publish does, without waiting for one confirm before it sends the next. It returns when
// every message is confirmed or has failed: nil or a *BatchError. A failed message does not stop the others.
//
// It stamps msgs in place, so publishing the failed ones again repeats their ids. The messages enter each queue in the
// order of the slice, unless one of them fails.
func (p *Publisher) PublishAll(ctx context.Context, msgs []Message) error {
	errs := make([]error, len(msgs))
	sent := make([]*outgoing, len(msgs))
	for i := range msgs {
		o := newOutgoing(msgs[i].Exchange, msgs[i].Key, &msgs[i].Publishing)
		if errs[i] = p.start(ctx, o); errs[i] == nil {
			sent[i] = o
		}
	}
	for i, o := range sent {
		if o != nil {
			errs[i] = p.wait(ctx, o)
		}
	}
	if cmp.Or(errs...) != nil {
		return &BatchError{Errs: errs}
	}
	return nil
}

// mostWindow bounds the memory that a Publisher takes for its Window alone: 16 MB.
const mostWindow = 1_000_000

// Options of a [Publisher]. The zero value, like nil, means all defaults.
type Options struct {
	// Window is how many messages may be in flight: accepted and neither confirmed nor failed. Publish waits while it is
	// full. It counts messages, not bytes: a Window of large bodies holds them all in memory. If zero, 1024; at most a
	// million.
	Window int

	// ConfirmTimeout bounds the time from the first byte written of a message to its confirm. If it passes, the Publisher
	// closes the connection and everything in flight fails with ErrConnectionLost. The time in which the broker blocks the
	// connection (a memory or disk alarm) does not count. It detects a broker that no longer answers; a single call is
	// bounded by its ctx. It also bounds the opening of a channel and the wait in Close. If zero, 30 s.
	ConfirmTimeout time.Duration

	// Logger logs connections that are lost, failed and regained, never single messages. A session that the refusal of a
	// message ended is in the error of that message only. If nil, nothing is logged.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.Window = cmp.Or(out.Window, 1024)
	out.ConfirmTimeout = cmp.Or(out.ConfirmTimeout, 30*time.Second)
	out.Logger = cmp.Or(out.Logger, slog.New(slog.DiscardHandler))
	return out
}

func (o Options) validate() error {
	switch {
	case o.Window < 0 || o.Window > mostWindow:
		return fmt.Errorf("publisher: %w", setting.New("Window", o.Window, fmt.Sprintf("1 to %d, or 0 for the default",
			mostWindow)))
	case o.ConfirmTimeout < 0:
		return fmt.Errorf("publisher: %w", setting.New("ConfirmTimeout", o.ConfirmTimeout, "positive, or 0 for the default"))
	}
	return nil
}
