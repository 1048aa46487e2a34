package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/pause"
)

// conclude tells the store how the handler ended, as far as it has to know, and returns what becomes of the delivery.
func (s *session) conclude(ctx context.Context, d *delivery) step {
	s.checkStuck()
	s.traceEnd(d)
	next := decideEnded(ended{
		ok: d.failure == nil, rejected: d.cause == counter.CauseRejected, stopped: ctx.Err() != nil,
		uncounted: d.failed != nil && d.failed.uncounted, crashed: d.failed != nil && d.failed.crashed,
		hasID: d.message.ID != "", open: d.open,
	})
	if next == stepAck { // the worker goes on with the next delivery
		s.unlock(d)
		return next
	}
	if !d.isolated() { // an isolated attempt is closed under the lock
		s.release(ctx, d)
	}
	switch next {
	case stepEnd:
		return s.end(ctx, d)
	case stepFail:
		return s.countFailed(ctx, d)
	case stepUncount:
		return s.uncount(ctx, d)
	case stepSuspect:
		return s.leaveOpen(ctx, d)
	case stepDeadLetter:
		d.cause = counter.CauseNoID
		if s.holdsQueue() {
			return s.holdUncountable(ctx, d)
		}
	default:
		s.close(ctx, d)
		s.release(ctx, d)
	}
	return next
}

// end closes an attempt that succeeded, before its ack, even if the session has ended: the delivery will come back, and
// an open attempt must not be taken for a crash.
func (s *session) end(ctx context.Context, d *delivery) step {
	instead := s.insist(ctx, d, stepEnd, func() error {
		defer s.release(ctx, d)
		return s.sendEnd(ctx, d, true)
	})
	return cmp.Or(instead, stepAck)
}

// countFailed counts a failed attempt and waits out its backoff.
func (s *session) countFailed(ctx context.Context, d *delivery) step {
	failure := s.failureOf(d)
	d.unmoved = 0
	for {
		var next step
		instead := s.insist(ctx, d, stepFail, func() (err error) {
			defer s.release(ctx, d)
			next, err = s.sendFail(ctx, d, failure)
			return err
		})
		if instead != 0 {
			d.unrecorded = instead == stepDeadLetter
			return instead
		}
		if d.unmoved == 0 && (next == stepMove || next == stepWait) {
			s.observe(ctx, d, Event{Outcome: OutcomeRetry, Wait: d.reply.Wait})
		}
		switch next {
		case stepMove:
			if next = s.move(ctx, d, stepFail); next == stepFail { // the copy may not be needed any more
				continue
			}
		case stepWait, stepHeld:
			s.control.letGo(d)
			d.uncounted, d.suspect = 0, false
			next = s.obey(ctx, d, next, decideRetry(s.Retry))
			d.again = next == stepAgain
			d.repeated = d.again
		default:
		}
		return next
	}
}

// uncount closes an attempt that is not counted, and holds the delivery.
func (s *session) uncount(ctx context.Context, d *delivery) step {
	instead := s.insist(ctx, d, stepUncount, func() (err error) {
		if d.open || d.doubt {
			err = s.sendEnd(ctx, d, false)
		}
		s.release(ctx, d)
		return err
	})
	if instead != 0 {
		return instead
	}
	return s.postpone(ctx, d, OutcomeNotCounted)
}

// leaveOpen sends no step, as if the process had died: the store keeps the attempt open. If it was isolated, its crash
// is decided.
func (s *session) leaveOpen(ctx context.Context, d *delivery) step {
	d.open, d.doubt, d.suspect, d.crash = false, false, true, d.failed.text
	s.decided(d)
	s.release(ctx, d)
	return s.postpone(ctx, d, OutcomeCrash)
}

// leastPostponed is the least wait before another attempt: no limit ends a loop of attempts that are not counted.
const leastPostponed = 100 * time.Millisecond

// postpone holds the delivery before another attempt in place: a requeue would count against the broker's delivery
// limit.
func (s *session) postpone(ctx context.Context, d *delivery, as Outcome) step {
	d.uncounted++
	s.control.hold(d)
	wait := max(s.backoffOf(d, d.reply.Counted()+d.uncounted), leastPostponed)
	s.observe(ctx, d, Event{Outcome: as, Wait: wait, Isolated: as == OutcomeCrash && d.mode == counter.ModeIsolated,
		Err: d.failure})
	next := s.wait(ctx, d, wait, stepAgain)
	d.again = d.again || next == stepAgain
	return next
}

func (s *session) sendFail(ctx context.Context, d *delivery, failure counter.Failure) (step, error) {
	var reply counter.Reply
	var next step
	err := s.send(context.WithoutCancel(ctx), d, func(ctx context.Context) (err error) {
		reply, err = s.Counter.Fail(ctx, s.counted(d), failure)
		if next = decideFailed(reply.Code); err == nil && next == 0 {
			err = fmt.Errorf("%w: FAIL got %v", errReplyCode, reply.Code)
		}
		return err
	})
	if err = s.closed(d, err); err != nil {
		return 0, err
	}
	d.reply = reply
	// the attempt's own cause did not end the retries
	if reply.Cause == counter.CauseTooOld || reply.Cause == counter.CauseSkipped {
		d.cause = reply.Cause
	}
	if reply.PossibleDuplicate {
		s.Logger.Warn("two messages with this id may be in the queue: they share one limit of attempts", "queue", s.Queue,
			"id", d.message.ID)
	}
	return next, nil
}

func (s *session) sendEnd(ctx context.Context, d *delivery, succeeded bool) error {
	err := s.send(context.WithoutCancel(ctx), d, func(ctx context.Context) error {
		return s.Counter.End(ctx, s.counted(d), succeeded)
	})
	return s.closed(d, err)
}

// closed takes the error of a step that closes an attempt, and returns it.
func (s *session) closed(d *delivery, err error) error {
	switch {
	case err == nil:
		d.open, d.doubt = false, false
		s.decided(d)
	case errors.Is(err, counter.ErrForeign): // the open attempt is overwritten
		s.decided(d)
	}
	return err
}

// failureOf returns what FAIL is sent with.
func (s *session) failureOf(d *delivery) counter.Failure {
	f := counter.Failure{Cause: d.cause, Reason: d.failed.text, Ran: d.ran}
	if d.cause == counter.CauseRejected {
		return f
	}
	f.Limit, f.Wait = s.limit(), s.backoffOf(d, d.reply.Counted()+1)
	if d.failed.limited {
		f.AtMost = d.failed.retries + 1
	}
	return f
}

// backoffOf returns what the handler asked for, else the backoff after so many failed attempts.
func (s *session) backoffOf(d *delivery, failed int) time.Duration {
	if d.failed.waits {
		return max(d.failed.wait, 0)
	}
	wait := DefaultBackoff(failed)
	s.guard("Backoff", func() { wait = max(s.Backoff(failed), 0) })
	return wait
}

// guard calls a function of the user, in a goroutine of its own. The function may panic, and a message that causes
// this must not kill every process that receives it. It may also call runtime.Goexit, as t.Fatal does, but the caller
// must go on: it may hold the isolation lock, or settle for all.
func (s *session) guard(name string, call func()) {
	panics := false
	returned := apart(func() {
		defer func() {
			if v := recover(); v != nil {
				panics = true
				s.Logger.Error(name+" panicked", "queue", s.Queue, "panic", textOf(v), "stack", string(debug.Stack()))
			}
		}()
		call()
	})
	if !returned && !panics {
		s.Logger.Error(name+" called runtime.Goexit instead of returning", "queue", s.Queue)
	}
}

// wait holds a delivery before the next step. It returns that step, or what comes instead.
func (s *session) wait(ctx context.Context, d *delivery, wait time.Duration, after step) step {
	wait, next := decideWait(wait, time.Until(d.heldUntil), after)
	switch s.control.wait(ctx, d, wait) {
	case waitStopped: // the store keeps the rest of the wait
		return decideStopped(next)
	case waitSkipped:
		return after
	default:
	}
	if next == stepOverdue {
		return s.overdue(ctx, d)
	}
	return next
}

// insist sends a step until the store takes it, and returns 0 then. Else the delivery may not be held any
// longer, or the session stops: it then returns the step that comes instead.
func (s *session) insist(ctx context.Context, d *delivery, sending step, send func() error) (instead step) {
	for {
		err := send()
		if err == nil {
			d.unanswered = 0
			return 0
		}
		if next := s.hold(ctx, d, sending, err); next != sending {
			return next
		}
	}
}

// hold holds a delivery after the store did not take a step. It returns that step when it is to be sent again, or what
// comes instead.
func (s *session) hold(ctx context.Context, d *delivery, sending step, err error) step {
	d.unanswered++
	wait, left := storeBackoff(d.unanswered), time.Until(d.heldUntil)
	if sending == stepRetract { // it begins when the delivery is overdue, and the broker waits for twice as long
		left += s.ConsumerTimeout / 4
	}
	next := decideOutage(sending, d.cause == counter.CauseRejected && !s.holdsQueue(), wait, left)
	if ctx.Err() == nil && (d.unanswered == 1 || next == stepGiveUp) {
		s.observe(ctx, d, Event{Outcome: OutcomeHold, Err: err})
	}
	switch {
	case next == stepGiveUp:
		d.err = fmt.Errorf("%w: queue %q: %w", ErrWaitedTooLong, s.Queue, err)
		return stepLeave
	case next == sending && !pause.For(ctx, wait):
		return decideStopped(sending)
	}
	return next
}

// close closes an attempt that is not counted. If the store does not answer, that is done later.
func (s *session) close(ctx context.Context, d *delivery) {
	if !d.open {
		s.decided(d)
	}
	if (d.open || d.doubt) && s.sendEnd(ctx, d, false) != nil {
		s.endDelay(d, false) //nolint:contextcheck // late steps outlive every context here
	}
}

// endDelay sends END until the store answers, after the delivery is gone.
func (s *session) endDelay(d *delivery, succeeded bool) {
	attempt := s.counted(d)
	d.open, d.doubt = false, false
	if d.undecided {
		s.isolation.gate.shut() // the lock may be released before END is answered
	}
	s.late.add(func(ctx context.Context) error { return s.Counter.End(ctx, attempt, succeeded) }, s.handOver(d))
}

// failDelay sends FAIL until the store answers.
func (s *session) failDelay(d *delivery) {
	attempt, failure := s.counted(d), s.failureOf(d)
	d.unrecorded = false
	s.late.add(func(ctx context.Context) error {
		_, err := s.Counter.Fail(ctx, attempt, failure)
		return err
	}, s.handOver(d))
}

// counted returns the attempt as the store counts it.
func (s *session) counted(d *delivery) counter.Attempt {
	return counter.Attempt{
		Message: d.message, Token: d.token.String(), Consumer: s.Name, First: d.isFirst(), Received: d.received,
		Fence: carriedFence(d.ours), MaxAge: s.MaxAge, Crash: d.crash, Delay: s.delayOf(d),
		HoldsQueue: s.holdsQueue(),
	}
}

var errOverdue = errors.New("consumer: an ordered delivery waited half the consumer timeout for those before it; " +
	"lower the prefetch or the backoff, or raise the timeout here and on the broker")

var errReplyCode = errors.New("consumer: the counter gave a reply that its step does not have")
