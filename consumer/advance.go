package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/strikesmq/strikes/counter"
)

const (
	stepTimeout  = time.Second            // for one step on the store
	aloneTimeout = 250 * time.Millisecond // for one step on the store under the isolation lock
)

// advance takes steps until the handler is to run or the delivery is done with, or is to be settled by its session in a run.
// Once stop is done nothing is begun, and nothing charged that was not charged yet.
func (s *Settler) advance(stop context.Context, a *attempt) {
	for {
		switch a.next {
		case stepRun, stepRunAlone, stepDone:
			return
		case stepAgain:
			s.renew(a)
		case stepStart:
			s.start(stop, a)
		case stepFail:
			s.fail(stop, a)
		case stepEnd:
			s.end(stop, a)
		case stepPause:
			s.wait(stop, a)
		case stepRetract:
			s.retract(stop, a)
		case stepOverdue:
			s.overdue(a)
		case stepAck, stepRequeue, stepDeadLetter:
			switch {
			case a.next == stepDeadLetter && time.Now().Before(s.buriesFrom):
				a.next, a.after, a.pause = stepPause, stepDeadLetter, time.Until(s.buriesFrom)
			case s.runs:
				return
			default:
				s.settled(stop, a, a.settle(false))
			}
		case stepLeave, stepGiveUp:
			s.leave(stop, a)
		}
	}
}

// ofStep is the context of one step on the store. A step that has begun is not broken off by a stop: its answer is at
// hand sooner than what it left undecided could be cleared up.
func ofStep(stop context.Context, a *attempt) (context.Context, context.CancelFunc) {
	d := stepTimeout
	if a.mode == counter.Exclusive {
		d = aloneTimeout
	}
	return context.WithTimeout(context.WithoutCancel(stop), d)
}

// start sends START.
func (s *Settler) start(stop context.Context, a *attempt) {
	if stop.Err() != nil || !s.takeSlot(stop, a) {
		a.next = stepLeave
		return
	}
	ctx, cancel := ofStep(stop, a)
	defer cancel()
	a.marked = true
	answer, err := s.Counter.Start(ctx, a.counted(s), a.mode, s.limit())
	next := decideStarted(answer.Verdict, a.mode)
	if err == nil && next == 0 {
		err = fmt.Errorf("%w: START was answered %v", errAnswer, answer.Verdict)
	}
	if err != nil {
		s.leaveSlot(a)
		s.outage(stop, a, a.startStep(), err)
		return
	}
	a.answer, a.away, a.marked, a.next = answer, 0, answer.Verdict == counter.Run, next
	if next != stepRun {
		s.leaveSlot(a)
	}
	switch {
	case next == stepPause:
		s.hold(a, answer.Wait, a.startStep())
	case next == stepDeadLetter:
		a.cause, a.failure = PastLimit, pastLimit(answer)
	case next == stepRunAlone && a.mode == counter.Shared:
		s.tell(stop, a, Event{Decision: Isolate})
	}
}

// startStep is where START is sent from: under the lock if the attempt is to run alone.
func (a *attempt) startStep() step {
	if a.mode == counter.Exclusive {
		return stepRunAlone
	}
	return stepStart
}

// fail sends FAIL.
func (s *Settler) fail(stop context.Context, a *attempt) {
	ctx, cancel := ofStep(stop, a)
	defer cancel()
	answer, err := s.Counter.Fail(ctx, a.counted(s), s.failureOf(a))
	next, after := decideFailed(answer.Verdict, s.Retry)
	if err == nil && next == 0 {
		err = fmt.Errorf("%w: FAIL was answered %v", errAnswer, answer.Verdict)
	}
	if err != nil {
		s.outage(stop, a, stepFail, err)
		a.unrecorded = a.next == stepDeadLetter
		return
	}
	a.answer, a.away, a.marked, a.next = answer, 0, false, next
	if next == stepPause {
		s.hold(a, answer.Wait, after)
		s.tell(stop, a, Event{Decision: Retry, Wait: answer.Wait})
	}
}

// failureOf is the charge for a run. The backoff is what the handler asked for, else what the charges call for.
func (s *Settler) failureOf(a *attempt) counter.Failure {
	f := counter.Failure{Reason: reasonOf(a.failure)}
	if a.cause == Rejected {
		return f
	}
	f.Limit = s.limit()
	if d, ok := retryAfter(a.failure); ok {
		f.Wait = max(d, 0)
	} else {
		charges := a.answer.Charges() + 1
		f.Wait = DefaultBackoff(charges)
		s.guard("Backoff", func() { f.Wait = max(s.Backoff(charges), 0) })
	}
	return f
}

// guard calls a function of the user's. A message that makes it panic must not kill every process which receives it.
func (s *Settler) guard(name string, call func()) {
	defer func() {
		if v := recover(); v != nil {
			s.Logger.Error(name+" panicked", "queue", s.Queue, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	call()
}

// takeSlot waits until a marked attempt more may exist, so that no more messages are marked as running than soon run: each
// of them becomes a suspect if the process dies. There are twice as many as workers, so that none waits for an answer to
// START. An attempt that is to run alone is marked by the worker that runs it.
func (s *Settler) takeSlot(stop context.Context, a *attempt) bool {
	if s.slots == nil || a.slot || a.mode == counter.Exclusive {
		return true
	}
	a.slot = s.slots.Acquire(stop, 1) == nil
	return a.slot
}

func (s *Settler) leaveSlot(a *attempt) {
	if a.slot {
		a.slot = false
		s.slots.Release(1)
	}
}

// end sends END after a success, before its ack, even if the session died meanwhile: the delivery will come back, and its
// marker must not be taken for a crash.
func (s *Settler) end(stop context.Context, a *attempt) {
	ctx, cancel := ofStep(stop, a)
	defer cancel()
	if err := s.Counter.End(ctx, a.counted(s), true); err != nil {
		s.outage(stop, a, stepEnd, err)
		return
	}
	a.away, a.marked, a.next = 0, false, stepAck
}

// hold sets a pause, within the time for which the delivery may be held.
func (s *Settler) hold(a *attempt, wait time.Duration, after step) {
	a.next = stepPause
	a.pause, a.after = decidePause(wait, time.Until(a.deadline), after)
}

// retract closes an attempt that was held for too long before it could run. Its delivery does not go back before the store
// has taken that: whoever receives it next would take an open marker for a crash.
func (s *Settler) retract(stop context.Context, a *attempt) {
	ctx, cancel := ofStep(stop, a)
	defer cancel()
	if err := s.Counter.End(ctx, a.counted(s), false); err != nil {
		s.outage(stop, a, stepRetract, err)
		return
	}
	a.away, a.marked, a.next = 0, false, stepOverdue
}

// overdue decides what follows when a delivery was held for as long as it may be.
func (s *Settler) overdue(a *attempt) {
	if a.next = decideOverdue(s.ordered); a.next == stepGiveUp {
		a.err = fmt.Errorf("%w: queue %q", errOverdue, s.Queue)
	}
}

// outage decides what follows a step that the store did not take.
func (s *Settler) outage(stop context.Context, a *attempt, taking step, err error) {
	a.away++
	a.pause = storeBackoff(a.away)
	left := time.Until(a.deadline)
	if taking == stepRetract { // which begins at the deadline, and the broker waits for twice as long
		left += s.ConsumerTimeout / 4
	}
	a.next, a.after = decideOutage(taking, a.cause == Rejected, a.pause, left)
	if stop.Err() == nil && (a.away == 1 || a.next == stepGiveUp) {
		s.tell(stop, a, Event{Decision: Hold, Err: err})
	}
	if a.next == stepGiveUp {
		a.err = fmt.Errorf("%w: queue %q: %w", ErrHeldTooLong, s.Queue, err)
	}
}

// wait pauses. A stop ends every pause, and what would have followed with it: the delivery returns with its session, and
// the store keeps what is left of the wait.
func (s *Settler) wait(stop context.Context, a *attempt) {
	if a.next = a.after; !pause(stop, a.pause) {
		a.next = decideStopped(a.after)
	}
}

// leave closes an attempt without a charge, as far as the store can be reached, and leaves the delivery to return with its
// session.
func (s *Settler) leave(stop context.Context, a *attempt) {
	s.close(stop, a)
	s.leaveSlot(a)
	a.next, a.outcome = stepDone, Left
	s.tell(stop, a, Event{Decision: Leave, Err: a.err})
}

// close ends an attempt without a charge. If the store is away, that is made good later: a marker that stays open would be
// taken for a crash.
func (s *Settler) close(stop context.Context, a *attempt) {
	if !a.marked {
		return
	}
	a.marked = false
	attempt := a.counted(s)
	end := func(ctx context.Context) error { return s.Counter.End(ctx, attempt, false) }
	ctx, cancel := ofStep(stop, a)
	defer cancel()
	if end(ctx) != nil {
		s.late.add(end) //nolint:contextcheck // late steps outlive every context here
	}
}

// settle sends the ack or nack that is next, of which each delivery gets one; multiple covers all before it that are not settled.
func (a *attempt) settle(multiple bool) error {
	switch a.next {
	case stepAck:
		return a.delivery.Ack(multiple)
	case stepRequeue:
		return a.delivery.Nack(multiple, true)
	default:
		return a.delivery.Nack(multiple, false)
	}
}

// settled is told what became of the ack or nack.
func (s *Settler) settled(stop context.Context, a *attempt, err error) {
	var decision Decision
	settling := a.next
	switch a.next = stepDone; settling {
	case stepAck:
		a.outcome, decision = Acked, Ack
	case stepRequeue:
		a.outcome, decision = Requeued, Return
	default:
		a.outcome, decision = DeadLettered, DeadLetter
	}
	if err != nil {
		a.err = fmt.Errorf("%w: queue %q: %s: %w", ErrSettlement, s.Queue, decision, err)
		a.outcome, decision = Left, Leave
	}
	s.tell(stop, a, Event{Decision: decision, Err: a.err})
	if a.outcome == DeadLettered {
		s.logUnrecorded(a)
	}
	switch {
	case settling == stepAck && a.marked: // its END was not taken
		attempt := a.counted(s)
		s.late.add(func(ctx context.Context) error { return s.Counter.End(ctx, attempt, true) }) //nolint:contextcheck // as above
	case a.unrecorded:
		attempt, failure := a.counted(s), s.failureOf(a)
		s.late.add(func(ctx context.Context) error { //nolint:contextcheck // as above
			_, err := s.Counter.Fail(ctx, attempt, failure)
			return err
		})
	}
}

// pause waits for d, or until ctx is done, which it reports as false.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var errOverdue = errors.New("consumer: an ordered delivery was held for half the ConsumerTimeout, for the waits and handlers before it: lower the Prefetch or the Backoff, or raise the timeout here and on the broker")

var errAnswer = errors.New("consumer: the counter gave an answer that its step does not have")
