package consumer

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/control"
	"github.com/strikesmq/strikes/counter"
)

// controlFeature lets operators pause a queue and skip messages.
var controlFeature = feature{room: newControlRoom}

// controlRoom ends the session when its queue is paused, and the wait of a message that is skipped.
type controlRoom struct {
	noRoom
	s       *session
	control *control.Control // shared with the sessions that follow or join; it reads once one of them consumes
}

func newControlRoom(s *session, before rooms) room {
	r := &controlRoom{s: s}
	if last := find[*controlRoom](before); last != nil {
		r.control = last.control
	} else {
		r.control = control.New(s.Counter, s.vhost, s.Queue, r.reader(), s.Logger)
	}
	s.waiting, s.look = r.wait, func() { r.control.ReadNow() }
	return r
}

// reader names the process to operators.
func (r *controlRoom) reader() counter.Reader {
	return counter.Reader{Token: token(tokens.Add(1)).String(), Consumer: r.s.Name, Breaker: r.s.Breaker > 0}
}

// close does nothing for the session on a partition, because sessions on other partitions still use the control.
func (r *controlRoom) close() {
	if r.s.source == r.s.Queue {
		r.control.Stop()
	}
}

// around calls consume with a context that a pause ends, or waits until a paused queue is resumed. Another session
// follows a pause, because the topology may have changed since the check.
func (r *controlRoom) around(ctx context.Context, conn *amqp.Connection, consume func(context.Context) error) error {
	r.control.Start()
	if paused, err := r.awaitResume(ctx, conn); paused || err != nil || ctx.Err() != nil {
		r.s.end()
		return err
	}
	session, end := r.control.Consuming(ctx)
	defer end()
	err := consume(session)
	if session.Err() != nil {
		r.s.end()
	}
	return err
}

// awaitResume returns once the queue is not paused, or ctx is done. It reports whether it was paused, and an error if
// the connection is lost meanwhile.
func (r *controlRoom) awaitResume(ctx context.Context, conn *amqp.Connection) (paused bool, err error) {
	select {
	case <-r.control.First():
	case <-ctx.Done():
		return false, nil
	}
	reply, changed := r.control.Current()
	if !reply.Paused {
		return false, nil
	}
	s := r.s
	s.Logger.Warn("paused; strikes status says how to go on", "queue", s.Queue, "by", reply.Note.By, "why", reply.Note.Why,
		"since", reply.Note.At)
	lost := conn.NotifyClose(make(chan *amqp.Error, 1))
	for reply.Paused {
		select {
		case <-changed:
		case <-ctx.Done():
			return true, nil
		case err := <-lost:
			return true, s.lost(errWaitLost, err)
		}
		reply, changed = r.control.Current()
	}
	s.Logger.Warn("resumed", "queue", s.Queue, "by", reply.Note.By, "why", reply.Note.Why)
	return true, nil
}

// wait holds a delivery. A stop ends the wait; an operator's skip ends it once. Operators see a delivery whose last
// attempt was not counted, because no record shows it.
func (r *controlRoom) wait(ctx context.Context, d *delivery, backoff time.Duration) waited {
	switch {
	case d.past.uncounted == 0:
		r.control.LetGo(d)
	case d.outcome.failed != nil:
		r.control.Hold(d, d.outcome.failed.text)
	}
	over := time.After(backoff)
	for {
		reply, changed := r.control.Current()
		if reply.Skips(d.message) {
			if skipped := kept[bool](d, r); !*skipped {
				*skipped = true
				return waitSkipped
			}
		}
		if ctx.Err() != nil { // also of a wait that is over already
			return waitStopped
		}
		select {
		case <-ctx.Done():
			return waitStopped
		case <-over:
			return waitOver
		case <-changed:
		}
	}
}

func (r *controlRoom) beforeSettlement(_ context.Context, d *delivery, next step) (step, error) {
	switch {
	case next == stepMove || next == stepHeld:
	case next == stepUncounted: // the next room may let it wait for the breaker
		r.control.Hold(d, d.outcome.failed.text)
	case d.past.uncounted > 0:
		r.control.LetGo(d)
	}
	return next, nil
}
