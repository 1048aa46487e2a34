package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// abandonAfter is how long a handler has to return once its context is cancelled. What it does later is ignored.
const abandonAfter = 2 * time.Second

// try takes stepRun or stepRunAlone. It begins nothing once stop is done. It cancels the handler once live is done, which is never
// before stop.
func (s *Settler) try(stop, live context.Context, a *attempt, h Handler) {
	defer s.leaveSlot(a)
	if a.next == stepRunAlone {
		s.tryIsolated(stop, live, a, h)
		return
	}
	if !s.acquire(stop, a, 1) {
		return
	}
	defer s.isolation.lock.Release(1)
	if a.marked && s.isolation.gate.opened() != nil {
		a.next = stepGate // so that this worker is free for first deliveries
		return
	}
	s.run(live, a, h)
	s.judge(stop, a)
}

// acquire waits for the isolation lock for as long as the delivery may be held. If it reports false, a.next is set.
func (s *Settler) acquire(stop context.Context, a *attempt, weight int64) bool {
	if time.Now().Before(a.deadline) && s.acquireLock(stop, a, weight) { // else it waited for a free worker too long
		if stop.Err() == nil {
			return true
		}
		s.isolation.lock.Release(weight)
	}
	if a.next = stepLeave; stop.Err() == nil {
		s.handOn(a)
	}
	return false
}

func (s *Settler) acquireLock(stop context.Context, a *attempt, weight int64) bool {
	if s.isolation.lock.TryAcquire(weight) {
		return true
	}
	ctx, cancel := context.WithDeadline(stop, a.deadline)
	defer cancel()
	return s.isolation.lock.Acquire(ctx, weight) == nil
}

// handOn gives back a delivery that was held for as long as it may be.
func (s *Settler) handOn(a *attempt) {
	if !a.marked {
		s.decided(a)
	}
	if a.next = stepOverdue; a.marked || a.doubt {
		a.next = stepRetract
	}
}

// conclude takes the step that closes an attempt, if that is next.
func (s *Settler) conclude(stop context.Context, a *attempt) {
	switch a.next {
	case stepEnd:
		s.end(stop, a)
	case stepFail:
		s.fail(stop, a)
	case stepLeave, stepGiveUp:
		s.close(stop, a)
	default:
	}
}

// run is one run of a handler: the context that it gets, and the rest of what it is called with. The handler may outlive the
// attempt, so it shares nothing with it.
type run struct {
	context.Context //nolint:containedctx // it is a context
	handler         Handler
	delivery        amqp.Delivery
	token           token
	number, last    int
	fence           int64

	said *plain // how the handler failed, once done is closed; nil: it did not
	done chan struct{}
}

func (r *run) Value(key any) any {
	if key == (attemptKey{}) {
		return r
	}
	return r.Context.Value(key)
}

// run calls the handler.
func (s *Settler) run(live context.Context, a *attempt, h Handler) {
	if a.answer.Limit == 0 {
		a.answer.Limit = s.limit()
	}
	a.number = a.answer.Counted() + 1
	r := &a.first // allocated with it
	if a.run > 1 {
		r = &run{}
	}
	*r = run{
		handler: h, delivery: a.shown(), token: a.token, number: a.number, last: a.answer.Limit, fence: a.keepFence(s.Queue),
		done: make(chan struct{}),
	}
	ctx, cancel := context.WithTimeoutCause(live, s.HandlerTimeout, errDeadline)
	defer cancel()
	r.Context = ctx
	began := time.Now()
	a.said = s.call(r) //nolint:contextcheck // r is a context, derived from live
	a.ran = time.Since(began)
	if a.said != nil {
		a.failure, a.cause = a.said.err, a.said.causeOf(ctx)
	}
}

// judge decides what the end of a run calls for.
func (s *Settler) judge(stop context.Context, a *attempt) {
	a.next = decideEnded(ended{
		ok: a.failure == nil, rejected: a.cause == counter.CauseRejected, stopped: stop.Err() != nil,
		hasID: a.message.ID != "", marked: a.marked,
	})
	if a.next == stepDeadLetter {
		a.cause = counter.CauseNoID
	}
}

// shown is the delivery as a handler gets it: it cannot be settled.
func (a *attempt) shown() amqp.Delivery {
	d := a.delivery
	d.Acknowledger = refusing{}
	return d
}

// call runs the handler in a goroutine of its own, so that one which ignores its context can be left behind. It returns
// errAbandoned then, wrapped around the reason for the cancellation.
func (s *Settler) call(r *run) *plain {
	go r.call()
	select {
	case <-r.done:
		return r.said
	case <-r.Done():
	}
	patience := time.NewTimer(abandonAfter)
	defer patience.Stop()
	select {
	case <-r.done:
		return r.said
	case <-patience.C:
		abandoned := &s.isolation.abandoned
		abandoned.Add(1)
		go func() {
			<-r.done
			abandoned.Add(-1)
		}()
		err := fmt.Errorf("%w: %w", context.Cause(r), errAbandoned)
		return &plain{err: err, text: err.Error()}
	}
}

func (r *run) call() {
	defer close(r.done)
	r.said = endedGoroutine
	defer func() {
		if v := recover(); v != nil {
			r.said = panicked(v, debug.Stack())
		}
	}()
	err := r.handler(r, r.delivery)
	said := plainOf(err) // an error's methods may panic, like a handler: a nil pointer of an error type
	r.said = said
}

var (
	errDeadline  = errors.New("the handler passed its deadline")
	errAbandoned = errors.New("the handler did not return after its context was cancelled, and was left behind")
	errGoexit    = errors.New("the handler ended its goroutine instead of returning")
	errNoID      = errors.New("the message has no id, so it gets one attempt only")
)

// ErrSettled is returned by the Ack, Nack and Reject of a delivery inside a Handler: return nil to ack it, an error to
// have it retried, Reject(err) to dead-letter it.
var ErrSettled = errors.New("consumer: a Handler does not settle its delivery: return nil, an error, or Reject(err)")

// refusing stands where a delivery's own session would.
type refusing struct{}

func (refusing) Ack(uint64, bool) error        { return ErrSettled }
func (refusing) Nack(uint64, bool, bool) error { return ErrSettled }
func (refusing) Reject(uint64, bool) error     { return ErrSettled }
