package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
)

var startModes = map[Isolation]rules.Mode{
	IsolationSuspects: rules.ModeShared, IsolationOff: rules.ModeUntracked,
}

// startIsolated sends START, and BEGUN right before the handler. START only reserves the attempt. From BEGUN on a death
// of this process counts against this message, so BEGUN goes out only to a store that has just replied.
func (s *session) startIsolated(ctx context.Context, d *delivery) (step, error) {
	_ = bound.Within(lockedPatience, func() { // a connection that blocks must not hold the lock
		select {
		case <-s.acks.Sent():
		case <-ctx.Done(): // a session that is lost sends none
		}
	})
	if ctx.Err() != nil {
		return s.giveBack(ctx, d), nil
	}
	d.mode = decideMode(s.isolation.abandoned.Load())
	next, err := s.sendStart(ctx, d, stepIsolate)
	if next != stepRun {
		return next, err
	}
	if d.mode == rules.ModeIsolated && ctx.Err() == nil {
		err = s.sendBegun(ctx, d)
	}
	if ctx.Err() != nil {
		s.close(ctx, d)
		return stepLeave, nil
	}
	if err != nil {
		return 0, err
	}
	return stepCall, nil
}

// sendStart sends START, and returns the step for its code. Unless that is stepRun, no attempt is open and d holds
// no slot.
func (s *session) sendStart(ctx context.Context, d *delivery, as step) (step, error) {
	var reply counter.Reply
	var next step
	d.open = true
	err := s.send(ctx, d, func(ctx context.Context) (err error) {
		reply, err = s.Counter.Start(ctx, s.counted(d), d.mode, s.limit())
		if next = decideStarted(reply.Code); err == nil && next == 0 {
			err = fmt.Errorf("%w: START got %v", errReplyCode, reply.Code)
		}
		d.doubt = d.doubt || err != nil && !notTaken(err)
		return err
	})
	if err != nil {
		s.leaveSlot(&d.grip)
		if !d.doubt { // nothing was opened
			d.open = false
			s.decided(&d.grip)
		}
		return 0, err
	}
	d.reply, d.asked = reply, as
	d.past.unanswered = 0
	if next == stepRun {
		if !d.again() {
			d.fence = reply.Fence
		}
		return next, nil
	}
	d.open = false
	s.leaveSlot(&d.grip)
	s.decided(&d.grip)
	switch next {
	case stepDeadLetter:
		d.outcome.cause, d.outcome.err = reply.Cause, errExhausted(reply)
	case stepIsolate:
		s.observe(ctx, d, Event{Outcome: OutcomeIsolate, Err: errSuspect})
	default:
	}
	return next, nil
}

// sendBegun tells the store that the handler of an isolated attempt is called now. After an error it must not be
// called.
func (s *session) sendBegun(ctx context.Context, d *delivery) error {
	var reply counter.Reply
	err := s.send(ctx, d, func(ctx context.Context) (err error) {
		reply, err = s.Counter.Begun(ctx, s.counted(d))
		if err == nil && reply.Code != rules.ReplyBegun && reply.Code != rules.ReplyGone {
			err = fmt.Errorf("%w: BEGUN got %v", errReplyCode, reply.Code)
		}
		return err
	})
	if err == nil && reply.Code == rules.ReplyGone {
		return errGone
	}
	return err
}

// errGone is the error of an attempt that got RUN from START and GONE from BEGUN, so its handler is not called.
var errGone = errors.New("the attempt is not open any more: the store lost it, another consumer has the message, or " +
	"an operator decided about it")

// errSuspect says why a message is isolated.
var errSuspect = errors.New("an earlier attempt did not end: its process lost the store, or died, perhaps because of " +
	"this message")

// mayStart returns stepStart once d has a slot and the gate is open, or the step of a delivery that waited for too
// long. The gate is asked last: the slot may have taken long.
func (s *session) mayStart(ctx context.Context, d *delivery) step {
	if s.takeSlot(ctx, &d.grip) && s.gate.pass(ctx, s.heldUntil(d)) {
		return stepStart
	}
	return s.giveBack(ctx, d)
}

// mayIsolate returns stepIsolate once no other isolated attempt of the process is undecided, and d has a worker and the
// whole isolation lock.
func (s *session) mayIsolate(ctx context.Context, d *delivery) step {
	if s.beUndecided(ctx, &d.grip, s.heldUntil(d)) && s.workers.wait(ctx, d) &&
		s.acquire(ctx, &d.grip, everything, s.heldUntil(d)) {
		return stepIsolate
	}
	return s.giveBack(ctx, d)
}

// mayRun returns stepCall once d has a worker and one unit of the isolation lock. An attempt that START let begin also
// waits for the gate, with neither, so that they serve first deliveries.
func (s *session) mayRun(ctx context.Context, d *delivery) step {
	for {
		if !s.workers.wait(ctx, d) || !s.acquire(ctx, &d.grip, 1, s.heldUntil(d)) {
			return s.giveBack(ctx, d)
		}
		if !d.open || s.isolation.gate.opened() == nil {
			return stepCall
		}
		s.release(ctx, d)
		if !s.gate.pass(ctx, s.heldUntil(d)) {
			return s.giveBack(ctx, d)
		}
	}
}

// giveBack returns the step of a delivery that got no further: it waited until ctx was done, or for as long as it may.
func (s *session) giveBack(ctx context.Context, d *delivery) step {
	s.release(ctx, d)
	if ctx.Err() != nil {
		return stepLeave
	}
	return s.overdue(d)
}

// orOverdue returns next, unless the delivery was held for as long as it may be.
func (s *session) orOverdue(d *delivery, next step) step {
	if time.Now().Before(s.heldUntil(d)) {
		return next
	}
	return s.overdue(d)
}

// overdue returns the step of a delivery that was held for as long as it may be. An attempt that may be open is closed
// first: the next receiver would take it for a crash. A dead letter gets no other attempt; leave closes its last one.
func (s *session) overdue(d *delivery) step {
	if !d.open {
		s.decided(&d.grip)
	}
	broken := d.route.broken
	if (d.open || d.doubt) && broken == nil {
		return stepRetract
	}
	next := decideOverdue(s.order != nil || broken != nil)
	if next != stepGiveUp {
		return next
	}
	switch {
	case broken != nil:
		d.result.err = fmt.Errorf("consumer: queue %q: a dead letter was held until its session ends: %w", s.Queue, broken)
	case d.past.uncounted > 0 && d.outcome.err != nil:
		d.result.err = fmt.Errorf("consumer: queue %q: a delivery was held for half the consumer timeout, because its "+
			"attempts are not counted: %w", s.Queue, d.outcome.err)
	default:
		d.result.err = fmt.Errorf("%w: queue %q", errOverdue, s.Queue)
	}
	return stepLeave
}

var errOverdue = errors.New("consumer: an ordered delivery waited half the consumer timeout: for the breaker, if " +
	"strikes status shows no progress; else lower the prefetch or the backoff, or raise the timeout here and on the " +
	"broker")
