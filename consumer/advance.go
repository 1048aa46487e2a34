package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/strikesmq/strikes/counter"
)

const (
	stepTimeout = time.Second // for one step on the store
	recordFor   = time.Minute // for which the charge of a rejected message is offered to a store that is away
)

// late bounds the charges that wait for the store after their deliveries were settled.
var late = semaphore.NewWeighted(1000)

// advance takes steps until the handler is to run or the delivery is done with. Once stop is done nothing is begun, and
// nothing charged that was not charged yet.
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
		case stepAck, stepRequeue, stepDeadLetter:
			s.settle(stop, a)
		case stepLeave, stepGiveUp:
			s.leave(stop, a)
		}
	}
}

// ofStep is the context of one step on the store. A step that has begun is not broken off by a stop: its answer is at
// hand sooner than what it left undecided could be cleared up.
func ofStep(stop context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(stop), stepTimeout)
}

// start sends START.
func (s *Settler) start(stop context.Context, a *attempt) {
	if stop.Err() != nil {
		a.next = stepLeave
		return
	}
	ctx, cancel := ofStep(stop)
	defer cancel()
	a.marked = true
	answer, err := s.Counter.Start(ctx, a.counted(s), a.mode, s.limit())
	next := decideStarted(answer.Verdict, a.mode)
	if err == nil && next == 0 {
		err = fmt.Errorf("%w: START was answered %v", errAnswer, answer.Verdict)
	}
	if err != nil {
		s.outage(stop, a, a.startStep(), err)
		return
	}
	a.answer, a.away, a.marked, a.next = answer, 0, answer.Verdict == counter.Run, next
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
	ctx, cancel := ofStep(stop)
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
		f.Wait = max(s.Backoff(a.answer.Charges()+1), 0)
	}
	return f
}

// end sends END after a success, before its ack, even if the session died meanwhile: the delivery will come back, and its
// marker must not be taken for a crash.
func (s *Settler) end(stop context.Context, a *attempt) {
	ctx, cancel := ofStep(stop)
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

// outage decides what follows a step that the store did not take.
func (s *Settler) outage(stop context.Context, a *attempt, taking step, err error) {
	a.away++
	a.pause = storeBackoff(a.away)
	a.next, a.after = decideOutage(taking, a.cause == Rejected, a.pause, time.Until(a.deadline))
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
	a.next, a.outcome = stepDone, Left
	if a.marked {
		ctx, cancel := ofStep(stop)
		defer cancel()
		if err := s.Counter.End(ctx, a.counted(s), false); err != nil {
			s.Logger.Warn("an attempt could not be closed, and may be taken for a crash", "queue", s.Queue, "error", err)
		}
	}
	s.tell(stop, a, Event{Decision: Leave, Err: a.err})
}

// settle sends the ack or nack. It is the only place that does, and is reached once for each delivery.
func (s *Settler) settle(stop context.Context, a *attempt) {
	settling := a.next
	a.next = stepDone
	var err error
	var decision Decision
	switch settling {
	case stepAck:
		err, a.outcome, decision = a.delivery.Ack(false), Acked, Ack
	case stepRequeue:
		err, a.outcome, decision = a.delivery.Nack(false, true), Requeued, Return
	default:
		err, a.outcome, decision = a.delivery.Nack(false, false), DeadLettered, DeadLetter
	}
	if err != nil {
		a.err = fmt.Errorf("%w: queue %q: %s: %w", ErrSettlement, s.Queue, decision, err)
		a.outcome, decision = Left, Leave
	}
	s.tell(stop, a, Event{Decision: decision, Err: a.err})
	if a.unrecorded {
		s.recordLate(stop, a)
	}
}

// recordLate goes on offering the charge of a message that was rejected while the store was away.
func (s *Settler) recordLate(stop context.Context, a *attempt) {
	if !late.TryAcquire(1) {
		return
	}
	defer late.Release(1)
	until, cancel := context.WithTimeout(stop, recordFor)
	defer cancel()
	for pause(until, storeBackoff(a.away)) {
		ctx, cancel := ofStep(stop)
		_, err := s.Counter.Fail(ctx, a.counted(s), s.failureOf(a))
		cancel()
		if err == nil {
			return
		}
		a.away++
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

var errAnswer = errors.New("consumer: the counter gave an answer that its step does not have")
