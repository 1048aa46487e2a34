package publisher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A Publisher publishes on a connection of its own, with confirms. It is safe
// for concurrent use, and made for it: each Publish waits for its own confirm,
// while the messages of others go out. Close it when done.
type Publisher struct {
	opts   Options
	ledger *ledger
	slots  chan struct{}  // holds one for each message in the window
	queue  chan *outgoing // as large as slots, so a send never blocks

	closing   <-chan struct{} // done as soon as Close is called: nothing new
	cancel    context.CancelFunc
	stop      chan struct{} // closed by Close, later: end the session
	ended     chan struct{} // closed by run, when all is settled
	closeOnce sync.Once
	closeErr  error

	mu      sync.Mutex
	trouble string // why nothing is being sent just now; empty: it is
}

// New returns a Publisher that connects by dial. It does not connect yet: the
// first Publish does. nil opts means all defaults.
//
// dial returns a new connection each time, which the Publisher closes. It must
// leave amqp.Config.Recovery nil: automatic recovery restarts the numbering
// under the confirms, so Publish refuses such a connection. Close waits for a
// dial under way, so dial should return when its ctx is done. Dialer makes such
// a dial.
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

// Publish publishes msg to exchange ("" is the default exchange, where key is
// the queue's name) and waits for the broker's confirm. It returns the
// MessageId, with an error too, and an *Error unless the broker confirmed the
// message and did not return it: see the package comment for the kinds.
//
// A MessageId is set if msg has none. DeliveryMode, if zero, becomes
// Persistent; amqp.Transient is kept. The rest is sent as it is.
//
// Without a connection Publish waits for one, until ctx is done; only a broker
// that says no (wrong password, no access to the vhost) is an error at once.
// Give ctx a deadline. If ctx ends when the message was not sent yet, it never
// will be. If it ends after that, Error.Undecided is true and the message may
// still be on its way out: until Close, do not change msg.Body and msg.Headers;
// publishing them once more, with the id, is fine.
//
// Calls at the same time with one exchange, key and MessageId go one after
// the other.
func (p *Publisher) Publish(ctx context.Context, exchange, key string, msg amqp.Publishing) (id string, err error) {
	o := newOutgoing(exchange, key, &msg)
	if err := p.start(ctx, o); err != nil {
		return o.msg.MessageId, err
	}
	return o.msg.MessageId, p.wait(ctx, o)
}

// start puts o in the queue. Its error means that it is not there.
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

// enter adds o to the ledger, once no message of its route is there.
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

// leave frees a place in the window.
func (p *Publisher) leave() { <-p.slots }

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
	case <-o.done: // both were ready, and the fate is worth more
		return o.err
	default:
		return o.fail(true, fmt.Errorf("publisher: no confirm yet: %w", ctx.Err()))
	}
}

// settle gives o, which has left the queue, its fate.
func (p *Publisher) settle(o *outgoing, fate func() error) {
	if p.ledger.settle(o, fate) {
		p.leave()
	}
}

func (p *Publisher) notSent(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble != "" {
		return fmt.Errorf("publisher: not sent: %s: %w", p.trouble, ctx.Err())
	}
	return fmt.Errorf("publisher: not sent: %w", ctx.Err())
}

func (p *Publisher) setTrouble(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = s
}

// Close takes no new messages, waits for the confirms of those that were
// accepted, for ConfirmTimeout at most, and closes the connection. Messages that
// wait for a connection fail with ErrClosed; those still without confirm in the
// end fail with ErrConnectionLost, and Close says how many. Later calls return
// the same; each waits until all is done. One thing may outlive Close: a write
// that hangs in a connection already lost, until the operating system ends it.
func (p *Publisher) Close() error {
	p.closeOnce.Do(func() {
		p.ledger.close()
		p.cancel()
		p.drain()
		left := len(p.ledger.inState(queued)) + len(p.ledger.inState(writing))
		close(p.stop)
		<-p.ended
		if left > 0 {
			p.closeErr = fmt.Errorf("publisher: closed, but unconfirmed after %v: messages: %d; each Publish says what is known", p.opts.ConfirmTimeout, left)
		}
	})
	<-p.ended
	return p.closeErr
}

// drain waits until all is settled.
func (p *Publisher) drain() {
	limit := time.NewTimer(p.opts.ConfirmTimeout)
	defer limit.Stop()
	select {
	case <-p.ledger.empty:
	case <-p.ended:
	case <-limit.C:
	}
}
