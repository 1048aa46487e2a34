package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// begin leads a delivery to its next attempt. It returns stepRun once the handler is to be called; d then has a worker
// and its units of the isolation lock. Any other step says what becomes of the delivery without an attempt.
func (s *session) begin(ctx context.Context, d *delivery) step {
	d.attempt = attempt{token: token(tokens.Add(1)), mode: startModes[s.Isolation]}
	if s.lanes.isHalted() {
		return stepLeave
	}
	if next := s.enterLane(ctx, d); next != stepRun {
		return next
	}
	switch s.decideReceived(d) {
	case stepRun:
		return s.enter(ctx, d)
	case stepIsolate:
		if d.suspect {
			s.observe(ctx, d, Event{Outcome: OutcomeIsolate, Err: errReported})
		}
		return s.startIsolated(ctx, d)
	case stepStart:
		return s.start(ctx, d)
	default:
		d.cause, d.failure = counter.CauseNoID, errNoID
		return stepDeadLetter
	}
}

var startModes = map[Isolation]counter.Mode{
	IsolationSuspects: counter.ModeShared, IsolationOff: counter.ModeUntracked,
}

// start asks the store whether the attempt may begin.
func (s *session) start(ctx context.Context, d *delivery) step {
	for {
		if !s.takeSlot(ctx, d) || !s.passGate(ctx, d) { // the gate is asked last: the slot may have taken long
			return s.giveBack(ctx, d)
		}
		next, err := s.sendStart(ctx, d)
		switch {
		case next == stepRun:
			return s.enter(ctx, d)
		case next == stepIsolate:
			return s.startIsolated(ctx, d)
		case err != nil:
			next = s.hold(ctx, d, stepStart, err)
		default:
			next = s.obey(ctx, d, next, stepStart)
		}
		if next != stepStart {
			return next
		}
	}
}

// startIsolated begins an attempt with no other handler beside it. START, BEGUN and the step that closes the attempt
// are sent under the isolation lock. START only reserves the attempt. From BEGUN on a death of this process counts
// against this message, so BEGUN is the last thing before the handler: it goes out only to a store that has just
// replied.
func (s *session) startIsolated(ctx context.Context, d *delivery) step {
	for {
		if !s.lockAll(ctx, d) {
			return s.giveBack(ctx, d)
		}
		_ = within(lockedPatience, s.acks.Flush) // a connection that blocks must not hold the lock
		d.mode = decideMode(s.isolation.abandoned.Load())
		next, err := s.sendStart(ctx, d)
		if next == stepRun && d.mode == counter.ModeIsolated && ctx.Err() == nil {
			err = s.sendBegun(ctx, d)
		}
		switch {
		case next == stepRun && ctx.Err() != nil:
			s.close(ctx, d)
			next, err = stepLeave, nil
		case next == stepRun && err == nil:
			return stepRun
		}
		s.release(ctx, d)
		if err != nil {
			next = s.hold(ctx, d, decideUnstarted(stepIsolate, d.open), err)
		} else {
			next = s.obey(ctx, d, next, stepIsolate)
		}
		if next == stepRetract {
			return s.retract(ctx, d)
		}
		if next != stepIsolate {
			return next
		}
	}
}

// obey follows a reply to START that asks for another step than an attempt. It returns again once START is to be sent
// again, or the outcome of the delivery.
func (s *session) obey(ctx context.Context, d *delivery, next, again step) step {
	switch next {
	case stepWait:
		return s.wait(ctx, d, d.reply.Wait, again)
	case stepMove:
		return s.move(ctx, d, again)
	case stepHeld:
		return s.awaitOperator(ctx, d)
	default:
		return next
	}
}

// sendStart sends START, and returns the step for its code. Unless that is stepRun, no attempt is open and d holds
// no slot.
func (s *session) sendStart(ctx context.Context, d *delivery) (step, error) {
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
		s.leaveSlot(d)
		if !d.doubt { // nothing was opened
			d.open = false
			s.decided(d)
		}
		return 0, err
	}
	d.reply, d.unanswered = reply, 0
	if next == stepRun {
		d.crash = ""
		return next, nil
	}
	d.open = false
	s.leaveSlot(d)
	s.decided(d)
	switch next {
	case stepDeadLetter:
		d.cause, d.failure = reply.Cause, errExhausted(reply)
	case stepIsolate:
		s.observe(ctx, d, Event{Outcome: OutcomeIsolate, Err: errLeftOpen})
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
		if err == nil && reply.Code != counter.ReplyBegun && reply.Code != counter.ReplyGone {
			err = fmt.Errorf("%w: BEGUN got %v", errReplyCode, reply.Code)
		}
		return err
	})
	if err == nil && reply.Code == counter.ReplyGone {
		return errGone
	}
	return err
}

// errGone is the error of an attempt that got RUN from START and GONE from BEGUN, so its handler is not called.
var errGone = errors.New("the attempt is not open any more: the store lost it, another consumer has the message, or " +
	"an operator decided about it")

// Why a message is isolated.
var (
	errReported = errors.New("the process that handled it died, perhaps because of this message")
	errLeftOpen = errors.New("an earlier attempt was not closed: its process died, perhaps because of this message, or " +
		"lost the store")
)

// enter waits for a worker and for one unit of the isolation lock. An attempt that START let begin also waits for the
// gate, with neither, so that they serve first deliveries.
func (s *session) enter(ctx context.Context, d *delivery) step {
	for {
		s.workers.wait(d)
		if !s.acquire(ctx, d, 1) {
			return s.giveBack(ctx, d)
		}
		if !d.open || s.isolation.gate.opened() == nil {
			return stepRun
		}
		s.release(ctx, d)
		if !s.passGate(ctx, d) {
			return s.giveBack(ctx, d)
		}
	}
}

// lockAll waits until no other isolated attempt of the process is undecided, then for a worker and for the whole
// isolation lock.
func (s *session) lockAll(ctx context.Context, d *delivery) bool {
	waiting, cancel := context.WithDeadline(ctx, d.heldUntil)
	defer cancel()
	if s.isolation.undecided.Acquire(waiting, 1) != nil {
		return false
	}
	d.undecided = true
	s.workers.wait(d)
	return s.acquire(ctx, d, everything)
}

// takeSlot waits until one more attempt may be open, so that no more are open than soon run: each becomes a suspect if
// the process dies. There are twice as many slots as workers, so that no worker waits for the reply to START.
func (s *session) takeSlot(ctx context.Context, d *delivery) bool {
	if ctx.Err() != nil {
		return false
	}
	d.slot = d.slot || s.slots.Acquire(ctx, 1) == nil
	return d.slot
}

func (s *session) leaveSlot(d *delivery) {
	if d.slot {
		d.slot = false
		s.slots.Release(1)
	}
}

// release gives back what an attempt holds.
func (s *session) release(ctx context.Context, d *delivery) {
	s.unlock(d)
	s.leaveSlot(d)
	if ready := s.workers.leave(d); ready != nil {
		go s.deliver(ctx, ready)
	}
}

// giveBack returns what becomes of a delivery that got no further: it waited until ctx was done, or for as long as it
// may.
func (s *session) giveBack(ctx context.Context, d *delivery) step {
	s.release(ctx, d)
	if ctx.Err() != nil {
		return stepLeave
	}
	return s.overdue(ctx, d)
}

// overdue returns what becomes of a delivery that was held for as long as it may be. An attempt that may be open is
// closed first: the next receiver would take it for a crash. A dead letter gets no other attempt; leave closes its last
// one.
func (s *session) overdue(ctx context.Context, d *delivery) step {
	if !d.open {
		s.decided(d)
	}
	if (d.open || d.doubt) && d.broken == nil {
		return s.retract(ctx, d)
	}
	next := decideOverdue(s.lanes != nil || d.broken != nil)
	if next != stepGiveUp {
		return next
	}
	d.err = fmt.Errorf("%w: queue %q", errOverdue, s.Queue)
	if d.uncounted > 0 && d.failure != nil {
		d.err = fmt.Errorf("consumer: queue %q: a delivery was held for half the consumer timeout, because its attempts "+
			"are not counted: %w", s.Queue, d.failure)
	}
	if d.broken != nil {
		d.err = fmt.Errorf("consumer: queue %q: a dead letter was held until its session ends: %w", s.Queue, d.broken)
	}
	return stepLeave
}

// retract closes an attempt that did not run. It returns stepAgain if there is time for another.
func (s *session) retract(ctx context.Context, d *delivery) step {
	end := func() error { return s.sendEnd(ctx, d, false) }
	if instead := s.insist(ctx, d, stepRetract, end); instead != 0 {
		return instead
	}
	if time.Now().Before(d.heldUntil) {
		return stepAgain
	}
	return s.overdue(ctx, d)
}
