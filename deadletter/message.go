package deadletter

import (
	"cmp"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/fingerprint"
)

// Message is a dead letter. Its strings come from messages and handlers: they may
// hold control characters and must not reach a terminal as they are.
type Message struct {
	ID          string // by which it is counted: its MessageId, or what Queue.Key makes of it; empty: none
	Origin      Death  // where it died, by x-death, else by LineageHeader; zero: it does not say
	Size        int    // of the body, in bytes
	Redelivered bool   // it was handed out before: by a look, or a replay that was cut off; always, from a quorum queue on 4.0
	Returns     int64  // as a quorum queue counts them
	Replays     int64  // how often it was replayed before it died once more

	// Fingerprint is made from its content, and names a dead letter without an ID. It
	// begins with "fp:"; empty if the content is not known.
	Fingerprint string

	// Record is what the counter keeps of the life in which it died; nil: nothing.
	Record *counter.Record

	// Shared tells that Record is nil because another message of the same ID has it.
	Shared bool

	// Message is what was published, and what became of its headers since. Browse
	// keeps no more of the body than Queue.Preview.
	Publishing amqp.Publishing

	tag    uint64 // of the delivery
	life   string // that it was given when it was replayed
	diedIn string // the generation under which Record is kept
}

// Reason is why it died: the last error of its record, else what the broker
// calls it.
func (l *Message) Reason() string {
	if l.Record != nil && l.Record.Reason != "" {
		return l.Record.Reason
	}
	return l.Origin.Reason
}

// Name is its ID, or its Fingerprint if it has none.
func (l *Message) Name() string { return cmp.Or(l.ID, l.Fingerprint) }

// Kind is a word for the reason, for filters and groups.
type Kind string

// Kinds of reasons.
const (
	KindFailed        Kind = "failed"         // handlers returned errors, or rejected it
	KindPanicked      Kind = "panicked"       // the last handler panicked
	KindTimedOut      Kind = "timed-out"      // the last handler passed its deadline
	KindCrashed       Kind = "crashed"        // the last process died of it
	KindRejected      Kind = "rejected"       // by a consumer of which no record is kept
	KindDeliveryLimit Kind = "delivery-limit" // the broker gave up: too many returns
	KindExpired       Kind = "expired"        // its time to live, or the queue's, was over
	KindOverflow      Kind = "overflow"       // the queue was full
	KindUnknown       Kind = "unknown"        // it does not say
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{KindFailed, KindPanicked, KindTimedOut, KindCrashed, KindRejected, KindDeliveryLimit, KindExpired, KindOverflow, KindUnknown}
}

// Kind tells what kind of reason it died of.
func (l *Message) Kind() Kind {
	switch l.Origin.Reason {
	case "rejected":
		return kindOf(l.Record)
	case "delivery_limit":
		return KindDeliveryLimit
	case "expired":
		return KindExpired
	case "maxlen":
		return KindOverflow
	}
	if l.Record != nil {
		return kindOf(l.Record)
	}
	return KindUnknown
}

// kindOf is the kind of a message that its consumer rejected.
func kindOf(r *counter.Record) Kind {
	if r == nil {
		return KindRejected
	}
	switch r.Cause {
	case counter.CausePanicked:
		return KindPanicked
	case counter.CauseCrashed:
		return KindCrashed
	case counter.CauseTimedOut:
		return KindTimedOut
	}
	return KindFailed
}

// newLetter reads a delivery. Its body is the delivery's.
func (q *Queue) newLetter(d *amqp.Delivery) *Message {
	l := &Message{
		ID: d.MessageId, Origin: originOf(deaths(d.Headers), q.Name), Size: len(d.Body), Redelivered: d.Redelivered,
		Returns: integer(d.Headers["x-delivery-count"]), Replays: replaysOf(d.Headers), tag: d.DeliveryTag,
		Publishing: amqp.Publishing{
			Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
			Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration,
			MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, UserId: d.UserId, AppId: d.AppId, Body: d.Body,
		},
	}
	l.Fingerprint = fingerprint.Of(d.MessageId, d.CorrelationId, d.Type, d.Body)
	if l.Origin.Queue == "" {
		l.Origin = originBefore(d.Headers)
	}
	if q.Key != nil {
		l.ID = q.Key(*d)
	}
	return l
}
