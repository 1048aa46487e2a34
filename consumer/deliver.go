package consumer

import (
	"cmp"
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/acks"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

// delivery is one message on its way from the channel to its settlement. One goroutine at a time has it: its own, one
// that took over from a handler that did not return, and last the one that settles.
type delivery struct {
	amqp.Delivery
	entry      acks.Entry[*delivery]
	ours       queueinfo.Headers // its headers, with those of strikes if they were written for it
	message    counter.Message
	received   time.Time
	heldUntil  time.Time // for so long it may be held
	copyNumber int64     // the number of this copy; 0: it is none
	body       string    // its fingerprint, once needed
	asksFirst  bool      // its first attempt needs no worker yet

	attempt           // the present one
	again      bool   // an attempt in place came before it
	repeated   bool   // one of those was counted
	uncounted  int    // attempts in a row that were not
	suspect    bool   // one of those crashed
	crash      string // how the last attempt crashed, until the next one begins
	first      call   // allocated with the delivery, which most often has only one
	reply      counter.Reply
	fence      int64 // of all attempts, once fenced
	fenced     bool
	unmoved    int  // copies in a row that the broker did not take
	unanswered int  // steps in a row that the store did not take
	skipped    bool // its backoff was cut short, because an operator skipped the message
	holding    bool // it holds its queue

	// What it holds; release gives it back.
	worker    bool
	slot      bool
	lock      int64 // units of the isolation lock
	undecided bool  // it is the one attempt of the process that may be open and isolated

	unrecorded bool      // dead-lettered before the store has counted its failure
	broken     error     // why the dead letter is held: its route
	routeUntil time.Time // for so long it is
	renewed    time.Time // when its tombstone was

	instead Outcome // of an ack, if it is not OutcomeAck
	outcome Outcome
	err     error
	sent    chan struct{} // closed after the ack or nack was sent; nil: nothing waits for that

	lane    string
	*inLane               // of a session that holds lanes
	next    *delivery     // the next in its lane, or of those that wait for a worker
	turn    chan struct{} // closed when it has a worker, if its goroutine waits for one
}

// attempt is one attempt at a delivery.
type attempt struct {
	token   token
	mode    counter.Mode // of START
	open    bool         // START let it begin, or may have: its reply was lost
	doubt   bool         // a START was not answered, and may yet arrive: only END makes sure that it opens nothing
	number  int          // 0 if its handler was not called
	ran     time.Duration
	failed  *handlerError // how the handler failed; nil: it did not
	failure error         // the same, or why no handler was called
	cause   counter.Cause
	trace   context.Context //nolint:containedctx // of the Tracer; nil without one
}

// take receives a delivery, and begins with it as soon as its lane and the workers allow.
func (s *session) take(ctx context.Context, from amqp.Delivery) *delivery {
	s.tasks.Add(1)
	now := time.Now()
	d := &delivery{Delivery: from, received: now, heldUntil: now.Add(s.ConsumerTimeout / 2)}
	d.ours = queueinfo.Read(from.Headers, s.Queue, from.MessageId, from.Body)
	d.message = counter.Message{VHost: s.vhost, Queue: s.Queue, Generation: d.ours.Generation(), ID: from.MessageId}
	if s.Key != nil {
		d.message.ID = ""
		s.guard("Key", func() { d.message.ID = s.Key(d.shown()) })
	}
	if d.message.ID != "" {
		d.copyNumber = d.ours.CopyNumber()
	}
	if d.ours.Foreign() {
		s.logForeign(d)
	}
	d.asksFirst = s.decideReceived(d) != stepRun
	s.received, s.last = s.received+1, d.message.ID
	if s.holds != nil {
		d.inLane = &inLane{carried: counter.ParsePosition(d.ours.Position())}
	}
	if s.Lane != nil {
		s.guard("Lane", func() { d.lane = counter.LaneName(s.Lane(d.shown())) })
	}
	d.entry.Delivery, d.entry.Channel, d.entry.Tag = d, from.Acknowledger, from.DeliveryTag
	s.acks.Open(&d.entry)
	if s.lanes.enter(d) && (d.asksFirst || s.workers.enter(d)) {
		go s.deliver(ctx, d)
	}
	return d
}

// deliver carries a delivery from its receipt to its settlement, then the ones that wait for its lane or its worker. It
// begins nothing once ctx is done, and counts nothing that was not counted yet.
func (s *session) deliver(ctx context.Context, d *delivery) {
	for d != nil {
		next, mine := s.attempts(ctx, d)
		if !mine {
			return
		}
		d = s.finish(ctx, d, next)
	}
}

// attempts makes attempts at d until one decides what becomes of it. If it reports false, another goroutine goes on
// with d.
func (s *session) attempts(ctx context.Context, d *delivery) (next step, mine bool) {
	for {
		if next = s.begin(ctx, d); next == stepRun {
			if !s.invoke(ctx, d) {
				return 0, false
			}
			next = s.conclude(ctx, d)
		}
		if next != stepAgain {
			return next, true
		}
	}
}

// resume goes on with a delivery whose handler was abandoned, or ended its goroutine.
func (s *session) resume(ctx context.Context, d *delivery) {
	if next := s.conclude(ctx, d); next != stepAgain {
		d = s.finish(ctx, d, next)
	}
	s.deliver(ctx, d)
}

// finish settles d, or leaves it to return with its session, and returns the delivery to go on with.
func (s *session) finish(ctx context.Context, d *delivery, next step) *delivery {
	next = s.passLane(ctx, d, next)
	if next == stepDeadLetter {
		next = s.awaitRoute(ctx, d)
	}
	switch {
	case next == stepLeave:
		return s.leave(ctx, d)
	case next == stepAck && s.holds != nil: // a dead letter of the lane must not be sent before this ack
		s.acks.Settle(&d.entry, acks.Ack, false)
		return s.following(ctx, d)
	case next == stepMoved || next == stepSuperseded:
		d.instead = instead[next]
		fallthrough
	case next == stepAck || s.lanes == nil:
		following := s.following(ctx, d)
		s.acks.Settle(&d.entry, methods[next], false)
		return following
	default:
		return s.settleInOrder(ctx, d, methods[next])
	}
}

// instead are the outcomes of acks after which a copy goes on.
var instead = map[step]Outcome{stepMoved: OutcomeMove, stepSuperseded: OutcomeSuperseded}

var methods = map[step]acks.Method{stepAck: acks.Ack, stepMoved: acks.Ack, stepSuperseded: acks.Ack,
	stepRequeue: acks.Requeue, stepDeadLetter: acks.DeadLetter}

// settleInOrder nacks d. What waits for d goes on only then: a dead letter that was not sent would come back after it.
func (s *session) settleInOrder(ctx context.Context, d *delivery, v acks.Method) *delivery {
	d.sent = make(chan struct{})
	s.acks.Settle(&d.entry, v, s.lanes.awaited(d))
	<-d.sent
	if d.outcome != OutcomeDeadLetter {
		s.lanes.halt()
	}
	following := s.following(ctx, d)
	s.done(d)
	return following
}

// leave closes the attempt, as far as the store can be reached, and leaves d to return with its session.
func (s *session) leave(ctx context.Context, d *delivery) *delivery {
	if d.unrecorded { // FAIL closes the attempt too
		s.failDelay(d) //nolint:contextcheck // late steps outlive every context here
	} else {
		s.close(ctx, d)
	}
	d.outcome = OutcomeLeave
	s.observe(ctx, d, Event{Outcome: OutcomeLeave, Err: d.err})
	s.lanes.halt()
	following := s.following(ctx, d)
	s.done(d)
	return following
}

// following passes on d's turn in its lane, and its worker. It returns the delivery that the caller is to go on with.
func (s *session) following(ctx context.Context, d *delivery) *delivery {
	inLane := s.lanes.next(d)
	if inLane != nil && !inLane.asksFirst && !s.workers.enter(inLane) {
		inLane = nil // it waits for a worker
	}
	ready := s.workers.leave(d)
	if inLane == nil {
		return ready
	}
	if ready != nil {
		go s.deliver(ctx, ready)
	}
	return inLane
}

// settled is called after the ack or nack of d was sent, or could not be.
func (s *session) settled(ctx context.Context, d *delivery, err error) {
	switch d.entry.Method {
	case acks.Ack:
		d.outcome = cmp.Or(d.instead, OutcomeAck)
	case acks.Requeue:
		d.outcome = OutcomeRequeue
	default:
		d.outcome = OutcomeDeadLetter
	}
	if err != nil {
		d.err = fmt.Errorf("%w: queue %q: %s: %w", ErrSettlement, s.Queue, d.outcome, err)
		d.outcome = OutcomeLeave
	}
	s.observe(ctx, d, Event{Outcome: d.outcome, Err: d.err})
	switch {
	case d.entry.Method == acks.Ack && d.open: // its END was not answered
		s.endDelay(d, true) //nolint:contextcheck // late steps outlive every context here
	case d.unrecorded:
		s.failDelay(d) //nolint:contextcheck // late steps outlive every context here
	}
	if d.sent != nil {
		close(d.sent)
		return
	}
	s.done(d)
}

// done is called when nothing more is to be done with d.
func (s *session) done(d *delivery) {
	s.control.letGo(d)
	if d.err != nil {
		s.fail(d.err)
	}
	s.tasks.Done()
}

// shown returns the delivery as a handler gets it: it cannot be settled.
func (d *delivery) shown() amqp.Delivery {
	out := d.Delivery
	out.Acknowledger = refusing{}
	return out
}

// isFirst reports whether no attempt was counted yet at a delivery that is neither redelivered nor a copy.
func (d *delivery) isFirst() bool { return !d.repeated && !d.Redelivered && d.copyNumber == 0 }

func (s *session) decideReceived(d *delivery) step {
	hasID := d.message.ID != ""
	if !hasID && s.holdsQueue() {
		return stepRun // nothing but another attempt could become of it
	}
	return decideReceived(hasID, d.isFirst() && (!d.again || !hasID), d.suspect, s.Isolation)
}
