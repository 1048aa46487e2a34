package broker

// Position is where a requeued message goes.
type Position int

// Where a requeued message goes.
const (
	PositionUnknown   Position = iota // neither a classic nor a quorum queue, or the version of the broker is not known
	PositionOriginal                  // its original position, before messages that came after it
	PositionHead                      // the head, behind messages that were returned before it
	PositionTail                      // the tail, behind all others
	PositionDiscarded                 // nowhere: the first return discards it
)

// brokerDeliveryLimit is that of a quorum queue without one, from RabbitMQ 4.0 on.
const brokerDeliveryLimit = 20

// Requeue is where a requeued message goes, by type, version and delivery limit:
//
//	                        3.10       4.0          4.3
//	classic                 original   original     original
//	quorum, no limit        tail       head, to 20  head, to 20
//	quorum, limit N > 0     head, to N head, to N   head, to N
//	quorum, limit -1        discarded  tail         head
//
// A policy that is not known may set another limit: see PolicyKnown.
func (q Queue) Requeue() Position {
	limit, set := q.DeliveryLimit()
	switch {
	case q.Type == Classic:
		return PositionOriginal
	case q.Type != Quorum || q.Version == (Version{}):
		return PositionUnknown
	case set && limit < 0 && q.Version.Before(4, 0):
		return PositionDiscarded
	case !set && q.Version.Before(4, 0), set && limit < 0 && q.Version.Before(4, 3):
		return PositionTail
	}
	return PositionHead
}

// ReturnLimit is how often a message may return to a quorum queue before the broker dead-letters or drops it, and
// whether there is such a limit. A message is delivered once more than that.
func (q Queue) ReturnLimit() (int64, bool) {
	limit, set := q.DeliveryLimit()
	switch {
	case q.Type != Quorum || set && limit < 0 || !set && q.Version.Before(4, 0):
		return 0, false
	case !set:
		return brokerDeliveryLimit, true
	}
	return limit, true
}
