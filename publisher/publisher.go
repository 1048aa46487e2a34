package publisher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
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
	close   func() error

	trouble atomic.Pointer[string] // why no message is being sent; nil if messages are sent
}

// New returns a Publisher that connects with dial. The first Publish connects. nil opts means all defaults.
//
// dial returns a new connection each time; the Publisher closes it. amqp.Config.Recovery must be nil, because automatic
// recovery restarts the numbers of the confirms: Publish refuses such a connection. Close waits for dial, so dial
// should return when its ctx is done. BufferedDialer returns a suitable dial.
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
	p.close = sync.OnceValue(p.shutDown)
	go p.run(ctx, newLink(dial, p))
	return p, nil
}

// Publish publishes msg to exchange and waits for the broker's confirm. The exchange "" is the default exchange, whose
// key is the name of a queue. Publish always returns the MessageId. The error is an *Error unless the broker confirmed
// the message and did not return it; the package comment lists the kinds.
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
	if o.headerSize, err = check(o.exchange, o.key, &o.msg); err != nil {
		return o.fail(false, err)
	}
	if ctx.Err() != nil {
		return o.fail(false, p.notSent(ctx))
	}
	if err := p.enter(ctx, o); err != nil {
		return o.fail(false, err)
	}
	select {
	case p.slots <- struct{}{}:
		p.queue <- o
		return nil
	case <-ctx.Done():
		err = o.fail(false, p.notSent(ctx))
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
			return p.notSent(ctx)
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
	if err := o.fail(false, p.notSent(ctx)); p.ledger.withdraw(o, err) {
		return err
	}
	select {
	case <-o.done: // both were ready: the outcome says more than ctx
		return o.err
	default:
		if trouble := p.trouble.Load(); trouble != nil {
			return o.fail(true, fmt.Errorf("publisher: no confirm yet: %s: %w", *trouble, ctx.Err()))
		}
		return o.fail(true, fmt.Errorf("publisher: no confirm yet: %w", ctx.Err()))
	}
}

// settle settles a message that has left the queue, and frees its slot.
func (p *Publisher) settle(o *outgoing, otherwise error) {
	if p.ledger.settle(o, otherwise) {
		p.freeSlot()
	}
}

func (p *Publisher) freeSlot() { <-p.slots }

func (p *Publisher) notSent(ctx context.Context) error {
	if trouble := p.trouble.Load(); trouble != nil {
		return fmt.Errorf("publisher: not sent: %s: %w", *trouble, ctx.Err())
	}
	return fmt.Errorf("publisher: not sent: %w", ctx.Err())
}

// Close refuses new messages, waits up to ConfirmTimeout for the confirms of accepted ones, and closes the connection.
// Messages that wait for a connection fail with ErrClosed. Messages without confirm fail with ErrConnectionLost, and
// Close returns their number. Every call waits until all is done and returns the same error. A write that hangs in a
// lost connection may outlive Close, until the operating system ends it.
func (p *Publisher) Close() error { return p.close() }

func (p *Publisher) shutDown() error {
	p.ledger.close()
	p.cancel()
	limit := time.NewTimer(p.opts.ConfirmTimeout)
	defer limit.Stop()
	select {
	case <-p.ledger.empty:
	case <-p.ended:
	case <-limit.C:
	}
	left := len(p.ledger.inState(queued)) + len(p.ledger.inState(writing))
	close(p.stop)
	<-p.ended
	if left > 0 {
		return fmt.Errorf("publisher: closed, but unconfirmed after %v: messages: %d; the error of each Publish says what "+
			"is known", p.opts.ConfirmTimeout, left)
	}
	return nil
}
