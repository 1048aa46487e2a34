package publisher

import (
	"context"
	"errors"
	"time"
)

// writerGrace is how long the end of a session waits for a write. amqp091-go v1.16.0 closes the socket of a dead
// connection only after such a write, which may take until the operating system gives up on the peer. The next session
// does not wait for that.
const writerGrace = time.Second

// run sends the queue, one session after the other, until ctx is done. It dials only when there is a message to send.
func (p *Publisher) run(ctx context.Context, l *link) {
	defer close(p.ended)
	defer p.abandon()
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
	grace := time.NewTimer(writerGrace)
	defer grace.Stop()
	select {
	case next = <-unsent:
	case <-grace.C:
		p.opts.Logger.Warn("publisher: a write is stuck in the lost connection")
		go func() {
			if o := <-unsent; o != nil {
				p.settle(o, o.fail(false, ErrConnectionLost))
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
	if !errors.Is(cause.err, errStopped) {
		p.opts.Logger.Warn("publisher: session lost", "error", cause.err)
	}
	return next
}

// refuse fails o and the queue for a reason that another try would not change.
func (p *Publisher) refuse(o *outgoing, cause error) {
	for {
		if p.ledger.take(o) {
			p.settle(o, refusal(o, cause))
		} else {
			p.freeSlot()
		}
		select {
		case o = <-p.queue:
		default:
			return
		}
	}
}

// abandon settles what Close found unsent.
func (p *Publisher) abandon() {
	for _, o := range p.ledger.inState(queued) {
		p.ledger.withdraw(o, o.fail(false, ErrClosed))
	}
}
