package consumer

import (
	"context"
	"errors"
	"reflect"

	"github.com/strikesmq/strikes/counter"
)

// QueueHolder is a Counter with which a message holds its whole queue, see Consumer.HoldLanes. *counter.Counter and
// *counter.Memory are QueueHolders. One that is not comparable is refused.
type QueueHolder interface {
	Counter
	Control(ctx context.Context, vhost, queue string, r counter.Reader) (counter.Control, error)
	HoldQueue(ctx context.Context, vhost, queue string, n counter.Note) error
}

func isQueueHolder(c Counter) bool {
	_, ok := c.(QueueHolder)
	return ok && reflect.ValueOf(c).Comparable()
}

// holdsQueue reports whether a message holds the queue instead of being dead-lettered.
func (c *Consumer) holdsQueue() bool { return c.HoldLanes && c.Lane == nil }

// heldPoll is how long a delivery that holds its queue is kept before another START, unless the pause ends its session
// first. It exceeds the time in which a process reads of a pause.
const heldPoll = 2 * controlEvery

var errHoldsQueue = errors.New("the message is exhausted and holds its queue, which is paused: give it a higher " +
	"limit or skip it; see strikes status")

// awaitOperator keeps a delivery that holds its queue, unsettled: the pause ends the session, and all deliveries return
// with it, in their order. It returns stepAgain if the queue is not paused any more.
func (s *session) awaitOperator(ctx context.Context, d *delivery) step {
	if !d.holding {
		d.holding = true
		s.Logger.Warn("a message holds the queue, which is paused; see strikes status", "queue", s.Queue, "id", d.message.ID,
			"cause", d.reply.Cause)
		s.observe(ctx, d, Event{Outcome: OutcomeHold, Err: errHoldsQueue})
	}
	s.control.readNow()
	return s.wait(ctx, d, heldPoll, stepAgain)
}

// holdUncountable pauses the queue for a message without an id, which no record can keep. It returns stepAgain once an
// operator has resumed the queue: each resume gives the message an attempt.
func (s *session) holdUncountable(ctx context.Context, d *delivery) step {
	store := s.Counter.(interface { // a QueueHolder, see validateOrder
		HoldQueue(ctx context.Context, vhost, queue string, n counter.Note) error
	})
	why := counter.Note{By: s.Name, Why: "a message without an id failed: resume the queue to try it again, or take " +
		"it off the queue"}
	pause := func(ctx context.Context) error { return store.HoldQueue(ctx, s.vhost, s.Queue, why) }
	if instead := s.insist(ctx, d, stepStart, func() error { return sendOnce(ctx, stepTimeout, pause) }); instead != 0 {
		return instead
	}
	next := s.awaitOperator(ctx, d)
	d.again = d.again || next == stepAgain
	return next
}
