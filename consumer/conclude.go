package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/pause"
)

// leastPostponed is the least wait before another attempt: no limit ends a loop of attempts that are not counted.
const leastPostponed = 100 * time.Millisecond

// postpone holds the delivery before another attempt in place: a requeue would count against the broker's delivery
// limit.
func (s *session) postpone(ctx context.Context, d *delivery, as Outcome) step {
	d.past.uncounted++
	wait := max(s.backoffOf(d, d.reply.Counted()+d.past.uncounted), leastPostponed)
	s.observe(ctx, d, Event{Outcome: as, Wait: wait, Err: d.outcome.err})
	return s.wait(ctx, d, wait, stepBegin)
}

func (s *session) sendFail(ctx context.Context, d *delivery) (step, error) {
	var reply counter.Reply
	var next step
	err := s.send(context.WithoutCancel(ctx), d, func(ctx context.Context) (err error) {
		reply, err = s.Counter.Fail(ctx, s.counted(d), d.outcome.count)
		if next = decideFailed(reply.Code); err == nil && next == 0 {
			err = fmt.Errorf("%w: FAIL got %v", errReplyCode, reply.Code)
		}
		return err
	})
	if err = s.closed(d, err); err != nil {
		return 0, err
	}
	again := d.asked == stepFail // after a move that failed
	if d.reply, d.asked = reply, stepFail; !again {
		s.failed(d)
	}
	// the attempt's own cause did not end the retries
	if reply.Cause == counter.CauseTooOld || reply.Cause == counter.CauseSkipped {
		d.outcome.cause = reply.Cause
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
		s.decided(&d.grip)
	case errors.Is(err, counter.ErrForeign): // the open attempt is overwritten
		s.decided(&d.grip)
	}
	return err
}

// failureOf returns the failure that FAIL reports to the store.
func (s *settings) failureOf(d *delivery) counter.Failure {
	o := d.outcome
	f := counter.Failure{Cause: o.cause, Reason: o.failed.text, Ran: o.ran}
	if o.cause == counter.CauseRejected {
		return f
	}
	f.Limit, f.Wait = s.limit(), s.backoffOf(d, d.reply.Counted()+1)
	if o.failed.limited {
		f.AtMost = o.failed.retries + 1
	}
	return f
}

// backoffOf returns the delay that the handler asked for, else the backoff after so many failed attempts.
func (s *settings) backoffOf(d *delivery, failed int) time.Duration {
	if failed := d.outcome.failed; failed.waits {
		return max(failed.wait, 0)
	}
	wait := DefaultBackoff(failed)
	if s.Backoff != nil {
		s.guard("Backoff", func() { wait = max(s.Backoff(failed), 0) })
	}
	return wait
}

// guard calls a function of the user, in a goroutine of its own. The function may panic, and a message that causes
// this must not kill every process that receives it. It may also call runtime.Goexit, as t.Fatal does, but the caller
// must go on: it may hold the isolation lock, or settle for all.
func (s *settings) guard(name string, call func()) {
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

// wait holds a delivery before the next step. It returns that step, or the one that replaces it.
func (s *session) wait(ctx context.Context, d *delivery, wait time.Duration, after step) step {
	wait, next := decideWait(wait, time.Until(s.heldUntil(d)), after)
	switch s.waiting(ctx, d, wait) {
	case waitStopped: // the store keeps the rest of the wait
		return decideStopped(next)
	case waitSkipped:
		return after
	default:
	}
	if next == stepOverdue {
		return s.overdue(d)
	}
	return next
}

// waitFor is the wait of a session without operators.
func waitFor(ctx context.Context, _ *delivery, d time.Duration) waited {
	if pause.For(ctx, d) {
		return waitOver
	}
	return waitStopped
}

// hold holds a delivery after the store did not take a step. It returns that step when it is to be sent again, or the
// one that replaces it. Deliveries that need no store have its worker meanwhile.
func (s *session) hold(ctx context.Context, d *delivery, sending step, err error) step {
	s.release(ctx, d)
	d.past.unanswered++
	wait, left := storeBackoff(d.past.unanswered), time.Until(s.heldUntil(d))
	if sending == stepRetract { // it begins when the delivery is overdue, and the broker waits for twice as long
		left += s.ConsumerTimeout / 4
	}
	next := decideOutage(sending, d.outcome.cause == counter.CauseRejected && !s.patient, wait, left)
	if ctx.Err() == nil && (d.past.unanswered == 1 || next == stepGiveUp) {
		s.observe(ctx, d, Event{Outcome: OutcomeHold, Err: err})
	}
	switch {
	case next == stepGiveUp:
		d.result.err = fmt.Errorf("%w: queue %q: %w", ErrWaitedTooLong, s.Queue, err)
		return stepLeave
	case next == sending && !pause.For(ctx, wait):
		return decideStopped(sending)
	}
	if sending == stepFail && next == stepDeadLetter {
		d.result.missing = true
	}
	return next
}

// close closes an attempt that is not counted. If the store does not answer, that is done later.
func (s *session) close(ctx context.Context, d *delivery) {
	if !d.open {
		s.decided(&d.grip)
	}
	if (d.open || d.doubt) && s.sendEnd(ctx, d, false) != nil {
		s.endLate(d, false)
	}
}

// endLate sends END until the store answers, after the delivery is gone.
func (s *session) endLate(d *delivery, succeeded bool) {
	attempt := s.counted(d)
	d.open, d.doubt = false, false
	if d.grip.undecided {
		s.gate.shut() // the lock may be released before END is answered
	}
	over := s.handOver(&d.grip)
	if over == nil && succeeded && d.result.err != nil { // it comes back: as a suspect, unless the store has its END
		over = func() {}
	}
	s.late.add(func(ctx context.Context) error { return s.Counter.End(ctx, attempt, succeeded) }, over)
}

// failLate sends FAIL until the store answers.
func (s *session) failLate(d *delivery) {
	attempt, failure := s.counted(d), d.outcome.count
	d.result.missing, d.open, d.doubt = false, false, false // an END before it would take the failure back
	s.late.add(func(ctx context.Context) error {
		_, err := s.Counter.Fail(ctx, attempt, failure)
		return err
	}, s.handOver(&d.grip))
}

// counted returns the attempt as the store counts it.
func (s *session) counted(d *delivery) counter.Attempt {
	a := counter.Attempt{
		Message: d.message, Token: d.token.String(), Consumer: s.Name, First: d.isFirst(), Received: d.received,
		Fence: carriedFence(d.ours), MaxAge: s.MaxAge,
	}
	s.rooms.mark(d, &a)
	return a
}

var errReplyCode = errors.New("consumer: the counter gave a reply that its step does not have")
