package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// advance takes steps until the handler is to run or the delivery is done with, or is to be settled by its session in a run.
// Once stop is done nothing is begun, and nothing charged that was not charged yet.
func (s *Settler) advance(stop context.Context, a *attempt) {
	for {
		switch a.next {
		case stepRun, stepRunAlone, stepDone:
			return
		case stepAgain:
			a.run++
			s.renew(a)
		case stepIsolate:
			s.isolate(stop, a)
		case stepGate:
			s.waitAtGate(stop, a)
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
			case a.next == stepDeadLetter && s.holdDeadLetter(stop, a):
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

// start sends START.
func (s *Settler) start(stop context.Context, a *attempt) {
	if !a.locked && !s.mayStart(stop, a) {
		return
	}
	var answer counter.Reply
	var next step
	a.marked = true
	err := send(stop, a, func(ctx context.Context) (err error) {
		answer, err = s.Counter.Start(ctx, a.counted(s), a.mode, s.limit())
		if next = decideStarted(answer.Verdict, a.mode); err == nil && next == 0 {
			err = fmt.Errorf("%w: START was answered %v", errAnswer, answer.Verdict)
		}
		a.doubt = a.doubt || err != nil && !notTaken(err)
		return err
	})
	if err != nil {
		s.leaveSlot(a)
		s.unstarted(stop, a, err)
		return
	}
	a.answer, a.away, a.marked, a.next = answer, 0, answer.Verdict == counter.VerdictRun, next
	if !a.marked {
		s.leaveSlot(a)
		s.decided(a)
	}
	switch next {
	case stepPause:
		s.hold(a, answer.Wait, a.startStep())
	case stepDeadLetter:
		a.cause, a.failure = answer.Cause, pastLimit(answer)
	case stepIsolate:
		a.isolate = true
		s.tell(stop, a, Event{Decision: Isolate})
	default:
	}
}

// unstarted decides what follows a START that was refused or not answered.
func (s *Settler) unstarted(stop context.Context, a *attempt, err error) {
	if !a.doubt { // nothing was opened
		a.marked = false
		s.decided(a)
		s.outage(stop, a, a.startStep(), err)
		return
	}
	s.outage(stop, a, decideUnstarted(a.locked), err)
}

// mayStart waits until START may be sent. If it reports false, a.next is set.
func (s *Settler) mayStart(stop context.Context, a *attempt) bool {
	if stop.Err() != nil || !s.takeSlot(stop, a) {
		a.next = stepLeave
		return false
	}
	if !s.passGate(stop, a) { // asked last: the slot may have taken long
		s.leaveSlot(a)
		return false
	}
	return true
}

// startStep returns the step that sends START: under the lock if the attempt is to be isolated.
func (a *attempt) startStep() step {
	if a.isolate {
		return stepIsolate
	}
	return stepStart
}

// fail sends FAIL.
func (s *Settler) fail(stop context.Context, a *attempt) {
	failure := s.failureOf(a)
	var answer counter.Reply
	var next, after step
	err := send(stop, a, func(ctx context.Context) (err error) {
		answer, err = s.Counter.Fail(ctx, a.counted(s), failure)
		if next, after = decideFailed(answer.Verdict, s.Retry); err == nil && next == 0 {
			err = fmt.Errorf("%w: FAIL was answered %v", errAnswer, answer.Verdict)
		}
		return err
	})
	if err != nil {
		if errors.Is(err, counter.ErrForeign) { // as in sendEnd
			s.decided(a)
		}
		s.outage(stop, a, stepFail, err)
		a.unrecorded = a.next == stepDeadLetter
		return
	}
	s.closed(a)
	a.answer, a.next = answer, next
	if next == stepPause {
		s.hold(a, answer.Wait, after)
		s.tell(stop, a, Event{Decision: Retry, Wait: answer.Wait})
	}
}

// closed is called when the store has answered the step that closes an attempt.
func (s *Settler) closed(a *attempt) {
	a.away, a.marked, a.doubt = 0, false, false
	s.decided(a)
}

// failureOf is the charge for a run. The backoff is what the handler asked for, else what the charges call for.
func (s *Settler) failureOf(a *attempt) counter.Failure {
	f := counter.Failure{Cause: a.cause, Reason: a.said.text}
	if a.cause == counter.CauseRejected {
		return f
	}
	f.Limit = s.limit()
	if a.said.waits {
		f.Wait = max(a.said.wait, 0)
	} else {
		charges := a.answer.Counted() + 1
		f.Wait = DefaultBackoff(charges)
		s.guard("Backoff", func() { f.Wait = max(s.Backoff(charges), 0) })
	}
	return f
}

// guard calls a function of the user's. A message that makes it panic must not kill every process which receives it.
func (s *Settler) guard(name string, call func()) {
	defer func() {
		if v := recover(); v != nil {
			s.Logger.Error(name+" panicked", "queue", s.Queue, "panic", textOf(v), "stack", string(debug.Stack()))
		}
	}()
	call()
}

// takeSlot waits until a marked attempt more may exist, so that no more messages are marked as running than soon run: each
// of them becomes a suspect if the process dies. There are twice as many as workers, so that none waits for an answer to
// START.
func (s *Settler) takeSlot(stop context.Context, a *attempt) bool {
	if s.slots == nil || a.slot {
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
	if err := s.sendEnd(stop, a, true); err != nil {
		s.outage(stop, a, stepEnd, err)
		return
	}
	a.next = stepAck
}

func (s *Settler) sendEnd(stop context.Context, a *attempt, succeeded bool) error {
	err := send(stop, a, func(ctx context.Context) error { return s.Counter.End(ctx, a.counted(s), succeeded) })
	switch {
	case err == nil:
		s.closed(a)
	case errors.Is(err, counter.ErrForeign): // the open attempt is overwritten
		s.decided(a)
	}
	return err
}

// hold sets a pause, within the time for which the delivery may be held.
func (s *Settler) hold(a *attempt, wait time.Duration, after step) {
	a.next = stepPause
	if a.pause, a.after = decidePause(wait, time.Until(a.deadline), after); a.after == stepOverdue && a.doubt {
		a.after = stepRetract
	}
}

// retract closes an attempt that did not run: it was held for too long, or START exclusive was not answered. Its delivery returns
// only after the store has answered: the next receiver would take an open attempt for a crash.
func (s *Settler) retract(stop context.Context, a *attempt) {
	if err := s.sendEnd(stop, a, false); err != nil {
		s.outage(stop, a, stepRetract, err)
		return
	}
	if a.next = stepOverdue; time.Now().Before(a.deadline) {
		s.renew(a)
	}
}

// overdue decides what follows when a delivery was held for as long as it may be.
func (s *Settler) overdue(a *attempt) {
	if a.next = decideOverdue(s.ordered || a.broken != nil); a.next != stepGiveUp {
		return
	}
	a.err = fmt.Errorf("%w: queue %q", errOverdue, s.Queue)
	if a.broken != nil {
		a.err = fmt.Errorf("consumer: queue %q: a dead letter was held until its session ends: %w", s.Queue, a.broken)
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
	a.next, a.after = decideOutage(taking, a.cause == counter.CauseRejected, a.pause, left)
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
		s.decided(a)
	}
	if (a.marked || a.doubt) && s.sendEnd(stop, a, false) != nil {
		s.endLater(a, false) //nolint:contextcheck // late steps outlive every context here
	}
}

// endLater repeats END until the store answers it, after the delivery is gone.
func (s *Settler) endLater(a *attempt, succeeded bool) {
	attempt := a.counted(s)
	a.marked = false
	if a.undecided {
		s.isolation.gate.shut() // the lock may be released before END is answered
	}
	s.late.add(func(ctx context.Context) error { return s.Counter.End(ctx, attempt, succeeded) }, s.handOver(a))
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
	case settling == stepAck && a.marked: // its END was not answered
		s.endLater(a, true) //nolint:contextcheck // as in close
	case a.unrecorded:
		s.failLater(a) //nolint:contextcheck // as in close
	}
}

// failLater has FAIL sent until the store answers it.
func (s *Settler) failLater(a *attempt) {
	attempt, failure := a.counted(s), s.failureOf(a)
	a.unrecorded = false
	s.late.add(func(ctx context.Context) error {
		_, err := s.Counter.Fail(ctx, attempt, failure)
		return err
	}, s.handOver(a))
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

var errOverdue = errors.New("consumer: an ordered delivery waited half the consumer timeout for those before it; lower the prefetch or the backoff, or raise the timeout here and on the broker")

var errAnswer = errors.New("consumer: the counter gave an answer that its step does not have")
