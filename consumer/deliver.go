package consumer

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/acks"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
)

// take receives a delivery, and begins with it as soon as its lane and the workers allow.
func (s *session) take(ctx context.Context, from amqp.Delivery) *delivery {
	s.tasks.Add(1)
	d := &delivery{Delivery: from, received: time.Now()}
	d.ours = broker.ReadHeaders(from.Headers, s.source, from.MessageId, from.Body)
	d.Exchange, d.RoutingKey = d.ours.Route(from.Exchange, from.RoutingKey)
	d.message = counter.Message{VHost: s.vhost, Queue: s.Queue, Generation: d.ours.Generation(), ID: from.MessageId}
	d.fence = carriedFence(d.ours)
	if s.Key != nil {
		d.message.ID = ""
		s.guard("Key", func() { d.message.ID = s.Key(d.shown()) })
	}
	if d.ours.Foreign() {
		s.logForeign(d)
	}
	if s.Lane != nil {
		shown := d.shown()
		shown.Exchange, shown.RoutingKey = d.ours.RouteBeforeReplay(d.Exchange, d.RoutingKey) // a replay keeps the lane
		s.guard("Lane", func() { d.lane = counter.LaneName(s.Lane(shown)) })
	}
	s.arrived.note(d)
	d.entry.Delivery, d.entry.Channel, d.entry.Tag = d, from.Acknowledger, from.DeliveryTag
	s.acks.Open(&d.entry)
	if s.order.enter(d) && (s.asksFirst(d) || s.workers.enter(d)) {
		go s.deliver(ctx, d, stepBegin)
	}
	return d
}

// deliver carries d from its receipt to its settlement, then the deliveries that wait for its lane or its worker. It
// takes one step after another: the result of each decides which one follows (see decide.go). A step that the store
// does not answer is repeated after a wait, for as long as d may be held. Nothing begins once ctx is done, and nothing
// is counted then that was not counted yet.
func (s *session) deliver(ctx context.Context, d *delivery, at step) {
	for d != nil {
		taken, err := at, error(nil) // err: the store did not answer
		switch at {

		// An attempt begins. A redelivery asks the store, because an earlier attempt may be open or counted.
		case stepBegin:
			if s.order.isHalted() {
				at = stepLeave
				break
			}
			d.past.counted = d.past.counted || d.asked == stepFail && d.reply.Code != rules.ReplyUncounted
			d.attempt = attempt{token: token(tokens.Add(1)), mode: startModes[s.Isolation]}
			if at, err = s.rooms.beforeAttempt(ctx, d); at == stepReceived {
				at = s.decideReceived(d)
			}
			switch {
			case at == stepDeadLetter && d.outcome.err == nil:
				d.outcome.cause, d.outcome.err = counter.CauseNoID, errNoID
			case at == stepIsolate:
				s.observe(ctx, d, Event{Outcome: OutcomeIsolate, Err: errSuspect})
			}
		case stepStart:
			if at = s.mayStart(ctx, d); at == stepStart {
				at, err = s.sendStart(ctx, d, stepStart)
			}
		case stepIsolate: // START, BEGUN and the step that closes the attempt are sent under the isolation lock
			if at = s.mayIsolate(ctx, d); at != stepIsolate {
				break
			}
			if at, err = s.startIsolated(ctx, d); at != stepCall {
				s.release(ctx, d)
				taken = decideUnstarted(stepIsolate, d.open)
			}
		case stepRun:
			at = s.mayRun(ctx, d)

		// The handler runs. If it does not return, another goroutine goes on with d, from stepEnded.
		case stepCall:
			if !s.invoke(ctx, d) {
				return
			}
			at = stepEnded
		case stepEnded:
			s.checkStuck()
			s.traceEnd(d)
			at = decideEnded(d.outcome, ctx.Err() != nil, d.message.ID != "", d.open, d.mode == rules.ModeIsolated)
			switch {
			case at == stepAck: // the worker goes on with the next delivery
				s.unlock(&d.grip)
			case !d.grip.isolated(): // an isolated attempt is closed under the lock
				s.release(ctx, d)
			}
			if at == stepDeadLetter {
				d.outcome.cause = counter.CauseNoID
			}

		// The store learns how it ended, as far as it has to know.
		case stepEnd: // before the ack, even if the session has ended: d comes back, and must not be taken for a crash
			err = s.sendEnd(ctx, d, true)
			s.release(ctx, d)
			at = stepAck
		case stepFail:
			if d.outcome.count.Cause == "" {
				d.outcome.count = s.failureOf(d)
			}
			again := d.asked == stepFail // after a move that failed
			at, err = s.sendFail(ctx, d)
			s.release(ctx, d)
			if !again && (at == stepMove || at == stepWait) {
				s.observe(ctx, d, Event{Outcome: OutcomeRetry, Wait: d.reply.Wait})
			}
			if at == stepWait || at == stepHeld {
				d.past.uncounted, d.past.suspect = 0, false
			}
		case stepUncount:
			if s.reports && d.message.ID != "" {
				d.outcome.cause, at = counter.CauseNotCounted, stepFail
				break
			}
			if d.open || d.doubt {
				err = s.sendEnd(ctx, d, false)
			}
			if s.release(ctx, d); err == nil {
				at = stepUncounted
			}
		case stepSuspect: // no step is sent, as if the process had died
			d.open, d.doubt, d.past.suspect = false, false, true
			s.decided(&d.grip)
			s.release(ctx, d)
			at = s.postpone(ctx, d, OutcomeCrash)
		case stepRetract: // an attempt that did not run is closed
			if err = s.sendEnd(ctx, d, false); err == nil {
				at = s.orOverdue(d, stepBegin)
			}

		// The delivery waits for its next attempt.
		case stepWait:
			at = s.wait(ctx, d, d.reply.Wait, decideWaited(d.asked, s.Retry))

		// It is settled, and the next delivery takes its place.
		default:
			if at, err = s.rooms.beforeSettlement(ctx, d, taken); err != nil || at != taken {
				break
			}
			switch at {
			case stepDeadLetter:
				at = s.awaitRoute(ctx, d)
			case stepUncounted:
				at = s.postpone(ctx, d, OutcomeNotCounted)
			}
			if at == taken {
				d, at = s.settle(ctx, d, at), stepBegin
			}
			continue // the store was not asked
		}
		if err != nil {
			at = s.hold(ctx, d, taken, err)
		} else if at != stepRetract { // before it the store was not asked
			d.past.unanswered = 0
		}
	}
}

// settle gives d its ack or nack, or leaves it to return with its session. It returns the delivery to go on with. A
// delivery that waits for a nack goes on only after it was sent. A dead letter that was not sent would come back after
// its successor.
func (s *session) settle(ctx context.Context, d *delivery, at step) (following *delivery) {
	var v acks.Method
	v, d.result.outcome = settlementOf(at)
	switch {
	case at == stepLeave:
		s.leave(ctx, d)
	case v == acks.Ack && s.order != nil: // a dead letter of the lane must not be sent before this ack
		s.acks.Settle(&d.entry, v, false)
		return s.following(ctx, d)
	case s.order == nil:
		following = s.following(ctx, d)
		s.acks.Settle(&d.entry, v, false)
		return following
	default:
		d.result.sent = make(chan struct{})
		s.acks.Settle(&d.entry, v, s.order.awaited(d))
		<-d.result.sent
		if d.result.outcome != OutcomeDeadLetter {
			s.order.halt()
		}
	}
	following = s.following(ctx, d)
	s.done(d)
	return following
}

// settlementOf returns how a delivery is settled after a step, and its outcome then.
func settlementOf(at step) (acks.Method, Outcome) {
	switch at {
	case stepAck:
		return acks.Ack, OutcomeAck
	case stepMoved:
		return acks.Ack, OutcomeMove
	case stepSuperseded:
		return acks.Ack, OutcomeSuperseded
	case stepRequeue:
		return acks.Requeue, OutcomeRequeue
	default:
		return acks.DeadLetter, OutcomeDeadLetter
	}
}

// leave closes the attempt, as far as the store can be reached, and leaves d to return with its session.
func (s *session) leave(ctx context.Context, d *delivery) {
	if d.result.missing { // FAIL closes the attempt too
		s.failLate(d)
	} else {
		s.close(ctx, d)
	}
	s.release(ctx, d)
	d.result.outcome = OutcomeLeave
	s.observe(ctx, d, Event{Outcome: OutcomeLeave, Err: d.result.err})
	s.order.halt()
}

// settled is called after the ack or nack of d was sent, or could not be.
func (s *session) settled(ctx context.Context, d *delivery, err error) {
	r := &d.result
	if err != nil {
		r.err = fmt.Errorf("%w: queue %q: %s: %w", ErrSettlement, s.Queue, r.outcome, err)
		r.outcome = OutcomeLeave
	}
	s.observe(ctx, d, Event{Outcome: r.outcome, Err: r.err})
	switch {
	case d.entry.Method == acks.Ack && d.open: // its END was not answered
		s.endLate(d, true)
	case r.missing:
		s.failLate(d)
	}
	if r.sent != nil {
		close(r.sent)
		return
	}
	s.done(d)
}

// done is called when nothing more is to be done with d.
func (s *session) done(d *delivery) {
	if d.result.err != nil {
		s.fail(d.result.err)
	}
	s.tasks.Done()
}

// decideReceived returns the step for a new attempt.
func (s *settings) decideReceived(d *delivery) step {
	hasID := d.message.ID != ""
	return decideReceived(hasID, d.isFirst() && (!d.again() || !hasID), d.past.suspect, s.Isolation)
}

// heldUntil returns until when a delivery may be held.
func (s *settings) heldUntil(d *delivery) time.Time { return d.received.Add(s.ConsumerTimeout / 2) }
