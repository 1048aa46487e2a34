package deadletter

import "fmt"

// Nature is what decides what becomes of a message that is returned.
type Nature struct {
	Type         string // "classic", "quorum"; empty: not known
	Major, Minor int    // release of RabbitMQ

	Limit   int64 // the delivery limit, as argument and policy make it
	Limited bool  // there is one

	// PolicyKnown is false if a policy may set another limit than Limit.
	PolicyKnown bool

	Unread string // why something is not known; empty if all is
	Denied bool   // Type is not known for lack of a permission
}

// Handling is what may be done with a dead-letter queue. The zero value allows
// nothing.
type Handling struct {
	// Take allows to take all messages off, from the first on: should that be
	// interrupted, those in hand return and none is lost.
	Take bool

	// Hold allows to look at messages, or to pick some: the others return to
	// their places, as often as that may be repeated.
	Hold bool

	// InPlace tells that a message returns to its very place. On a quorum queue it
	// goes to the head, but behind those that were returned before it.
	InPlace bool

	// Limit is how many returns the queue allows a message; zero: any number.
	Limit int64

	// Why says, for people, why something is not allowed or what to mind.
	Why string
}

const (
	// enough returns that looking at a queue may go on for years.
	enough = 1000
	// defaultLimit is that of a quorum queue without one, from RabbitMQ 4.0 on.
	defaultLimit = 20
	// fewest returns with which a replay that is interrupted a few times loses
	// nothing.
	fewest = 5
)

// Handling judges. What it goes by was measured:
//
//	                        3.10       4.0          4.3
//	classic                 its place  its place    its place
//	quorum, no limit        tail       head, to 20  head, to 20
//	quorum, limit N > 0     head, to N head, to N   head, to N
//	quorum, limit -1        discarded  tail         head
func (n Nature) Handling() Handling {
	switch {
	case n.Type == "classic":
		return Handling{Take: true, Hold: true, InPlace: true}
	case n.Type == "":
		return Handling{Why: "it cannot be told what kind of queue it is"}
	case n.Type != "quorum":
		return Handling{Why: fmt.Sprintf("it is a queue of type %q, from which nothing can be taken", n.Type)}
	case n.Major == 0:
		return Handling{Why: "it is a quorum queue, and the broker tells no version"}
	}
	if n.Major < 4 {
		return n.old()
	}
	if !n.Limited {
		n.Limit = defaultLimit
	}
	if n.Limit < 0 {
		return n.unlimited()
	}
	return n.limited()
}

// old is for quorum queues before RabbitMQ 4.0.
func (n Nature) old() Handling {
	switch {
	case n.Limited && n.Limit < 0:
		return Handling{Why: fmt.Sprintf("it is a quorum queue with the delivery limit %d, which on RabbitMQ %d.%d discards a message the first time it is returned", n.Limit, n.Major, n.Minor)}
	case !n.PolicyKnown:
		return Handling{Why: fmt.Sprintf("it is a quorum queue, and a policy, of which only the management API tells, may have it discard what is returned (RabbitMQ %d.%d)", n.Major, n.Minor)}
	case !n.Limited:
		return Handling{Take: true, Why: "it is a quorum queue without a delivery limit, which before RabbitMQ 4.0 puts returned messages at its tail"}
	}
	return n.limited()
}

func (n Nature) unlimited() Handling {
	if n.Minor < 3 && n.Major == 4 {
		return Handling{Take: true, Why: "it is a quorum queue with the delivery limit -1, which before RabbitMQ 4.3 puts returned messages at its tail"}
	}
	return Handling{Take: true, Hold: n.PolicyKnown, Why: n.unseen()}
}

func (n Nature) limited() Handling {
	h := Handling{Limit: n.Limit, Take: n.Limit >= fewest, Hold: n.Limit >= enough && n.PolicyKnown}
	switch {
	case n.Limit < enough:
		h.Why = fmt.Sprintf("it is a quorum queue with the delivery limit %d: each look counts, and one too many deletes the message", n.Limit)
	case !h.Hold:
		h.Why = n.unseen()
	}
	return h
}

func (n Nature) unseen() string {
	if n.PolicyKnown {
		return ""
	}
	return "it is a quorum queue, and a policy, of which only the management API tells, may limit how often it may be looked at"
}
