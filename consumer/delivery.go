package consumer

import (
	"context"
	"maps"
	"math"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/acks"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
)

// delivery is one message on its way from the channel to its settlement. One goroutine at a time has it: its own, one
// that took over from a handler that did not return, and last the one that settles.
type delivery struct {
	amqp.Delivery
	entry    acks.Entry[*delivery]
	ours     broker.Headers // its headers, with those of strikes if they were written for it
	message  counter.Message
	received time.Time
	lane     string
	kept     []keptBy      // the data of rooms about this delivery
	turn     chan struct{} // closed when it has a worker, if its goroutine waits for one

	attempt       // the present one
	first   call  // of its first attempt, allocated with the delivery, which most often has only one
	fence   int64 // of all its attempts
	past    past
	grip    grip
	reply   counter.Reply // the last one
	route   heldByRoute
	result  result
}

// past is the state that a delivery keeps from one attempt to the next.
type past struct {
	counted    bool // one of them was
	uncounted  int  // attempts in a row that were not
	suspect    bool // one of those crashed
	unanswered int  // steps in a row that the store did not take
}

// attempt is one attempt at a delivery.
type attempt struct {
	token   token
	mode    rules.Mode // of START
	asked   step       // START, shared or isolated, or FAIL: the step that the store has replied to last
	open    bool       // START let it begin, or may have: its reply was lost
	doubt   bool       // a START was not answered, and may yet arrive: only END makes sure that it opens nothing
	number  int        // 0 if its handler was not called
	outcome outcome
	trace   context.Context //nolint:containedctx // of the Tracer; nil without one
}

// outcome is how an attempt ended.
type outcome struct {
	began  time.Time
	ran    time.Duration
	failed *handlerError // how the handler failed; nil: it did not
	err    error         // the same, or why no handler was called
	cause  counter.Cause
	count  counter.Failure // for FAIL
}

// result is the end of a delivery: its outcome and its error.
type result struct {
	outcome Outcome // set before its ack or nack is sent
	err     error
	missing bool          // it is dead-lettered before the store has counted its failure
	sent    chan struct{} // closed after the ack or nack was sent; nil: nothing waits for that
}

// grip is the worker, the slot and the lock that a delivery holds. release gives them back.
type grip struct {
	worker    bool
	slot      bool
	lock      int64 // units of the isolation lock
	undecided bool  // it is the one attempt of the process that may be open and isolated
}

// isolated reports whether it has the whole isolation lock.
func (g *grip) isolated() bool { return g.lock == everything }

// heldByRoute is how a dead letter is held.
type heldByRoute struct {
	broken  error     // why: the route
	until   time.Time // for so long it is
	renewed time.Time // when its tombstone was
}

// call is one call of a handler, and its context. The handler may outlive the attempt, so the fields that a handler can
// reach do not change.
type call struct {
	context.Context //nolint:containedctx // it is a context
	delivery        *delivery
	token           token
	number, last    int
	fence           int64
	isolated        bool
	began           time.Time
	over            atomic.Bool // the handler has returned, or was abandoned
}

func (c *call) Value(key any) any {
	if key == (attemptKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// shown returns the delivery as a handler gets it: it cannot be settled, and its headers can be changed.
func (d *delivery) shown() amqp.Delivery {
	out := d.Delivery
	out.Acknowledger, out.Headers = refusing{}, maps.Clone(d.Headers)
	if out.Headers == nil {
		out.Headers = amqp.Table{}
	}
	return out
}

// copyNumber is 0 for a message that is no copy. Without an id there are none.
func (d *delivery) copyNumber() int64 {
	if d.message.ID == "" {
		return 0
	}
	return d.ours.CopyNumber()
}

// isFirst reports whether no attempt was counted yet at a delivery that is neither redelivered nor a copy.
func (d *delivery) isFirst() bool { return !d.past.counted && !d.Redelivered && d.copyNumber() == 0 }

// again reports whether a handler was called for the delivery before.
func (d *delivery) again() bool { return d.first.delivery != nil }

// end notes how the handler ended.
func (d *delivery) end(c *call, failed *handlerError) {
	d.outcome.began, d.outcome.ran, d.outcome.failed = c.began, time.Since(c.began), failed
	if failed != nil {
		d.outcome.err, d.outcome.cause = failed.err, failed.causeOf(c)
	}
}

// keptBy is the data of one room about a delivery.
type keptBy struct {
	room any
	it   any
}

// kept returns the data that a room keeps with a delivery. At first it is the zero value of T.
func kept[T any](d *delivery, room any) *T {
	for _, k := range d.kept {
		if k.room == room {
			return k.it.(*T)
		}
	}
	it := new(T)
	d.kept = append(d.kept, keptBy{room, it})
	return it
}

// everything is the weight of an isolated attempt.
const everything = math.MaxInt64
