package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
)

// queueFeature pauses the queue instead of dead-lettering a message, as Consumer.HoldLanes does without a Lane. It
// opens no breaker, because an operator may take days to decide about the message. While a breaker is open, deliveries
// wait unacked and return to the queue after half the consumer timeout. A broker before 4.3 counts each return towards
// the delivery limit of a quorum queue. With the default limit of RabbitMQ 4, 20 returns, and the default consumer
// timeout, it dead-letters the message after five hours.
var queueFeature = feature{room: newQueueRoom}

// queueRoom keeps a message that is exhausted at the head of its queue, which is paused meanwhile.
type queueRoom struct {
	noRoom
	s *session
}

func newQueueRoom(s *session, _ rooms) room {
	if !s.HoldLanes || s.Lane != nil {
		return nil
	}
	s.patient = true
	return &queueRoom{s: s}
}

func (r *queueRoom) mark(_ *delivery, a *counter.Attempt) { a.HoldsQueue = true }

// beforeAttempt lets a message without an id run: nothing but another attempt could become of it.
func (r *queueRoom) beforeAttempt(_ context.Context, d *delivery) (step, error) {
	if d.message.ID == "" {
		return stepRun, nil
	}
	return stepReceived, nil
}

var errHoldsQueue = errors.New("the message is exhausted and holds its queue, which is paused: give it a higher " +
	"limit, reset its count (counter reset) or skip it; see strikes status")

// beforeSettlement pauses the queue, and keeps the delivery that holds it unsettled. The pause ends the session, and
// all deliveries return with it, in their order. It returns stepBegin if no pause ends the session within two seconds,
// in which one read may be lost: an operator may have resumed the queue already. No record can keep a message without
// an id, so each resume gives it an attempt.
func (r *queueRoom) beforeSettlement(ctx context.Context, d *delivery, next step) (step, error) {
	why := fmt.Sprintf("a message is exhausted after %s (%s): give it a higher limit or skip it",
		printable.Plural(d.reply.Counted(), "failed attempt"), d.reply.Cause)
	switch {
	case next == stepDeadLetter && d.message.ID == "":
		why = "a message without an id failed: resume the queue to try it again, or take it off the queue"
	case next != stepHeld:
		return next, nil
	}
	holding := counter.Holding{Message: d.message, Cause: d.reply.Cause}
	err := bound.Step(ctx, stepTimeout, func(ctx context.Context) error {
		return r.s.Counter.HoldQueue(ctx, holding, counter.Note{By: r.s.Name, Why: why})
	})
	if err != nil {
		return 0, err
	}
	if noted := kept[bool](d, r); !*noted {
		*noted = true
		r.s.Logger.Warn("a message holds the queue, which is paused; see strikes status", "queue", r.s.Queue,
			"id", d.message.ID, "cause", d.reply.Cause)
		r.s.observe(ctx, d, Event{Outcome: OutcomeHold, Err: errHoldsQueue})
	}
	r.s.look()
	return r.s.wait(ctx, d, 2*stepTimeout, stepBegin), nil
}
