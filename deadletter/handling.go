package deadletter

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// Nature is what decides where a requeued message goes.
type Nature struct {
	Type         string // "classic", "quorum"; empty: not known
	Major, Minor int    // release of RabbitMQ

	Limit   int64 // the effective delivery limit of argument and policy
	Limited bool  // whether there is one

	// PolicyKnown is false if an unknown policy may set another limit.
	PolicyKnown bool

	Unread string // why something is not known; empty if all is
	Denied bool   // Type is not known for lack of a permission
}

// Handling is what is safe to do with a dead-letter queue. The zero value allows nothing.
type Handling struct {
	// Take allows taking messages off, from the first on. After an interruption the held messages return and none is lost.
	Take bool

	// Hold allows reading messages or picking some, any number of times: the others return to their positions.
	Hold bool

	// InPlace reports that a message returns to its original position. A quorum queue returns it to the head, behind messages that
	// were returned before it.
	InPlace bool

	// Limit is how many returns the queue allows a message; zero: any number.
	Limit int64

	// Why says, for people, why something is not allowed.
	Why string
}

const (
	// enoughReturns allow browsing a queue for years.
	enoughReturns = 1000
	// fewestReturns allow a replay to be interrupted a few times without a loss.
	fewestReturns = 5
)

// Handling returns what is safe, by the position to which the queue returns messages.
func (n Nature) Handling() Handling {
	q := queueinfo.Queue{Version: queueinfo.Version{Major: n.Major, Minor: n.Minor}, Declared: queueinfo.Declared{Type: n.Type}}
	if n.Limited {
		q.Args = amqp.Table{queueinfo.ArgDeliveryLimit: n.Limit}
	}
	old, position := q.Version.Before(4, 0), q.Requeue()
	switch {
	case position == queueinfo.PositionOriginal:
		return Handling{Take: true, Hold: true, InPlace: true}
	case n.Type == "":
		return Handling{Why: "the type of the queue is not known"}
	case n.Type != queueinfo.Quorum:
		return Handling{Why: fmt.Sprintf("messages cannot be taken off a queue of type %q", n.Type)}
	case position == queueinfo.PositionUnknown:
		return Handling{Why: "it is a quorum queue, and the version of the broker is not known"}
	case position == queueinfo.PositionDiscarded:
		return Handling{Why: fmt.Sprintf("it is a quorum queue with the delivery limit %d, and RabbitMQ %s discards its messages at the first return", n.Limit, q.Version)}
	case old && !n.PolicyKnown:
		return Handling{Why: fmt.Sprintf("it is a quorum queue, and a policy may make RabbitMQ %s discard returned messages; only the management API shows policies", q.Version)}
	case position == queueinfo.PositionTail && old:
		return Handling{Take: true, Why: "it is a quorum queue without a delivery limit, which before RabbitMQ 4.0 puts returned messages at its tail"}
	case position == queueinfo.PositionTail:
		return Handling{Take: true, Why: "it is a quorum queue with the delivery limit -1, which before RabbitMQ 4.3 puts returned messages at its tail"}
	}
	limit, limited := q.ReturnLimit()
	h := Handling{Limit: limit, Take: !limited || limit >= fewestReturns, Hold: n.PolicyKnown && (!limited || limit >= enoughReturns)}
	switch {
	case limited && limit < enoughReturns:
		h.Why = fmt.Sprintf("it is a quorum queue with the delivery limit %d: every read counts, and the broker deletes a message above the limit", limit)
	case !h.Hold:
		h.Why = "it is a quorum queue, and a policy may limit how often its messages can be read; only the management API shows policies"
	}
	return h
}
