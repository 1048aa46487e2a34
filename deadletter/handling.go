package deadletter

import (
	"fmt"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
)

// Handling lists the actions that are safe on a dead-letter queue. The zero value allows none.
type Handling struct {
	// Take allows taking messages off, from the first on. After an interruption the held messages return. A quorum queue
	// deletes one that returns more often than its Limit. So where that is low, each is taken when its window begins, and
	// one that has reached the limit ends its window.
	Take bool

	// Hold allows reading messages or picking some, any number of times: the others return to their positions. It has no
	// effect on a queue with a Limit below a million.
	Hold bool

	// InPlace reports that a message returns to its original position. A quorum queue returns it to the head, behind
	// messages that were returned before it.
	InPlace bool

	// Limit is how many returns the queue allows a message; zero: any number.
	Limit int64

	// SingleActive reports that the queue refuses basic.get, because one consumer at a time is active. Where the Limit is
	// low, an interruption then returns a window more.
	SingleActive bool

	// Why says, for people, why something is not allowed.
	Why string

	// Denied reports that the type of the queue is not known for lack of a permission.
	Denied bool
}

// endures reports whether messages may be returned often.
func (h Handling) endures() bool { return h.Hold && (h.Limit == 0 || h.Limit >= broker.EnoughReturns) }

// check refuses to read on at a message that was returned half as often as the limit of its queue allows. Each refusal
// returns the message once more.
func (h Handling) check(queue string, returns int64) error {
	if h.Limit == 0 || returns < h.Limit/2 {
		return nil
	}
	return fmt.Errorf("%w to read queue %q: a message was returned to it %s, and at more than %d the broker "+
		"deletes it; replay or drop everything, which returns nothing",
		ErrWorn, queue, printable.Plural(int(returns), "time"), h.Limit)
}

// fewestReturns allow a replay to be interrupted a few times without a loss.
const fewestReturns = 5

// handlingOf returns the safe actions. If facts that could not be read limit them, Why names those facts.
func handlingOf(d broker.Description) Handling {
	h := safeFor(d.Queue)
	h.Denied, h.SingleActive = d.Denied, d.Queue.SingleActive()
	if h.Hold {
		return h
	}
	for _, unread := range []string{d.Unread, d.Trouble} {
		if unread != "" {
			h.Why += " (" + unread + ")"
		}
	}
	return h
}

// safeFor decides by the position to which the queue returns messages.
func safeFor(q broker.Queue) Handling {
	old, position := q.Version.Before(4, 0), q.Requeue()
	delivery, _ := q.DeliveryLimit()
	switch {
	case q.Exclusive:
		return Handling{Why: "the queue is exclusive to another connection"}
	case q.AutoDelete:
		return Handling{Why: "it is auto-delete: the broker deletes it, with its messages, when the command ends"}
	case position == broker.PositionOriginal:
		return Handling{Take: true, Hold: true, InPlace: true}
	case q.Type == "":
		return Handling{Why: "the type of the queue is not known"}
	case q.Type != broker.Quorum:
		return Handling{Why: fmt.Sprintf("messages cannot be taken off a queue of type %q", q.Type)}
	case position == broker.PositionUnknown:
		return Handling{Why: "it is a quorum queue, and the version of the broker is not known"}
	case position == broker.PositionDiscarded:
		return Handling{Why: fmt.Sprintf("it is a quorum queue with the delivery limit %d, and RabbitMQ %s discards its "+
			"messages at the first return", delivery, q.Version)}
	case old && !q.PolicyKnown:
		return Handling{Why: fmt.Sprintf("it is a quorum queue, and a policy may make RabbitMQ %s discard returned "+
			"messages; only the management API shows policies", q.Version)}
	case position == broker.PositionTail && old:
		return Handling{Take: true, Why: "it is a quorum queue without a delivery limit, which before RabbitMQ 4.0 puts " +
			"returned messages at its tail"}
	case position == broker.PositionTail:
		return Handling{Take: true, Why: "it is a quorum queue with the delivery limit -1, which before RabbitMQ 4.3 puts " +
			"returned messages at its tail"}
	}
	limit, limited := q.ReturnLimit()
	h := Handling{Limit: limit, Take: !limited || limit >= fewestReturns, Hold: q.PolicyKnown &&
		(!limited || limit >= broker.EnoughReturns)}
	switch {
	case limited && limit < broker.EnoughReturns:
		h.Why = fmt.Sprintf("it is a quorum queue with the delivery limit %d: each read returns all messages once, and the "+
			"broker deletes a message above the limit; set a limit of %d or more (strikes doctor)", limit,
			broker.EnoughReturns)
	case !h.Hold:
		h.Why = "it is a quorum queue, and a policy may limit how often its messages can be read; only the management API " +
			"shows policies"
	}
	return h
}
