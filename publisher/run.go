package publisher

import (
	"context"
	"errors"
	"time"
)

// writerGrace is how long the end of a session waits for a write under way.
// amqp091-go v1.16.0 closes the socket of a dead connection only after such a
// write has ended, which may take until the operating system gives up on the
// peer; the next session does not wait for that.
const writerGrace = time.Second

// run serves the queue, one session after the other, until ctx is done. A
// connection is dialled only when there is something to send.
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

// serve runs s to its end. It returns the message that was about to be written
// then, if nothing of it was sent.
func (p *Publisher) serve(s *session, l *link, first *outgoing) (next *outgoing) {
	s.spawn(s.confirm)
	unsent, late := make(chan *outgoing), make(chan struct{})
	go func() {
		o := s.write(first)
		select {
		case unsent <- o:
		case <-late:
			if o != nil {
				p.settle(o, func() error { return o.fail(false, ErrConnectionLost) })
			}
		}
	}()
	cause := s.watch(p.stop)
	close(s.lost)
	grace := time.NewTimer(writerGrace)
	defer grace.Stop()
	select {
	case next = <-unsent:
	case <-grace.C:
		close(late)
		p.opts.Logger.Warn("publisher: a write is stuck in the lost connection")
	}
	s.spawned.Wait()
	p.settleLeft(cause)
	if s.confirmed.Load() {
		l.confirmed()
	}
	if !errors.Is(cause.err, errStopped) {
		p.opts.Logger.Warn("publisher: session lost", "error", cause.err)
	}
	return next
}

// settleLeft settles what the end of a session left without confirm.
func (p *Publisher) settleLeft(c cause) {
	left := p.ledger.inState(writing)
	for i, v := range judge(left, c) {
		o := left[i]
		p.settle(o, func() error {
			if o.returned != nil || o.confirm != nil && o.confirm.Acked() {
				return o.confirmed(true)
			}
			return v.error(o, c)
		})
	}
}

// refuse fails what is queued, for a reason that no further try would change.
func (p *Publisher) refuse(o *outgoing, cause error) {
	for {
		if p.ledger.take(o) {
			p.settle(o, func() error { return refusal(o, cause) })
		} else {
			p.leave()
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
