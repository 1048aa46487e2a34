package deadletter

import (
	"cmp"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/reason"
)

// Message is a dead letter. Its strings come from publishers and handlers: they may hold control characters, so do not
// print them on a terminal unescaped.
type Message struct {
	ID     string // by which it is counted: its MessageId, or the result of Queue.Key; empty: none
	Origin Death  // where it died, by x-death or else by LineageHeader; zero: not known
	// Queue is the one under whose name it is counted: Origin.Queue, or the partitioned queue to which that belongs.
	Queue string
	Size  int // of the body, in bytes; SizeUnknown from OfRecord
	// it was delivered before, by a Browse or a replay that was cut off; always true from a quorum queue on 4.0
	Redelivered bool
	Returns     int64 // counted by a quorum queue
	Replays     int64 // how often it was replayed before it died again

	// Fingerprint identifies a dead letter without an ID by its content. It begins with "fp:"; empty if the content is not
	// known.
	Fingerprint string

	// Record is the counter's record of the generation in which it died; nil: none.
	Record *counter.Record

	// Shared reports that Record is nil because it belongs to a later message with the same ID.
	Shared bool

	// Foreign reports that its headers of strikes were written for another message or queue, so they count as absent. A
	// program that publishes with the headers of a message it received makes such messages.
	Foreign bool

	// Publishing is the message with its present headers. Browse keeps no more of the body than Queue.Preview.
	Publishing amqp.Publishing

	tag    uint64 // of the delivery
	next   string // the generation that a replay began
	diedIn string // the generation of Record

	partitions int // of Queue; 0: not known, or none
}

// Death is one entry of a message's x-death header. Any publisher can send such a header: do not trust its strings more
// than a body.
type Death struct {
	Queue    string    // in which the message died
	Exchange string    // to which it had been published
	Key      string    // with which it had been published; the first, if there were several
	Reason   string    // "rejected", "delivery_limit", "expired" or "maxlen"
	Time     time.Time // by the broker, in whole seconds
	Count    int64     // of such deaths
}

// newMessage reads a delivery. The body is the delivery's.
func (q *Queue) newMessage(d *amqp.Delivery) *Message {
	origin, headers := originOf(d, q.Name)
	m := &Message{
		ID: d.MessageId, Origin: origin, Size: len(d.Body), Redelivered: d.Redelivered, Foreign: headers.Foreign(),
		Returns: broker.Integer(d.Headers["x-delivery-count"]), Replays: replaysOf(headers), tag: d.DeliveryTag,
		Publishing: amqp.Publishing{
			Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
			Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration,
			MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, UserId: d.UserId, AppId: d.AppId, Body: d.Body,
		},
	}
	if m.Queue = origin.Queue; q.Partitioned != "" && broker.IsPartition(origin.Queue, q.Partitioned) {
		m.Queue, m.partitions = q.Partitioned, q.Partitions
	}
	m.Fingerprint = broker.Fingerprint(d.MessageId, d.CorrelationId, d.Type, d.Body)
	if q.Key != nil {
		m.ID = q.Key(*d)
	}
	return m
}

// SizeUnknown is the Size of a dead letter of which only the record is known.
const SizeUnknown = -1

// OfRecord returns the dead letter that a tombstone describes, without the message itself: no headers, no body, no
// replays.
func OfRecord(r *counter.Record) *Message {
	return &Message{
		ID: r.ID, Origin: Death{Queue: r.Queue, Reason: "rejected", Time: r.LastTime}, Size: SizeUnknown, Record: r,
		diedIn: r.Generation, Queue: r.Queue,
	}
}

// ours returns the headers, with those of strikes if they count.
func (m *Message) ours() broker.Headers {
	return broker.ReadKnownHeaders(m.Publishing.Headers, m.Origin.Queue, m.Foreign)
}

// originOf returns the death that made a message a dead letter of this queue, and the message's headers: the newest
// death by a consumer, else the newest of any, except in the queue itself. Without one it returns the death before
// the last replay: that replay went to an exchange that leads here. A message that came back from a delay queue to a
// queue that was gone has the name of that queue as its routing key.
func originOf(d *amqp.Delivery, deadLetterQueue string) (Death, broker.Headers) {
	died := deathOf(d.Headers, deadLetterQueue)
	if died.Queue != "" {
		headers := broker.ReadHeaders(d.Headers, died.Queue, d.MessageId, d.Body)
		died.Exchange, died.Key = headers.Route(died.Exchange, died.Key)
		return died, headers
	}
	claimed := replayedFrom(broker.ReadKnownHeaders(d.Headers, "", false)).Queue // if its headers were written for it
	headers := broker.ReadHeaders(d.Headers, claimed, d.MessageId, d.Body)
	return replayedFrom(headers), headers
}

func deathOf(headers amqp.Table, deadLetterQueue string) (newest Death) {
	for _, d := range broker.Deaths(headers) {
		switch {
		case d.Queue == deadLetterQueue:
		case deadLetterQueue == broker.DelayLost:
			d.Queue = d.Key
			return Death(d)
		case d.ByConsumer():
			return Death(d)
		case newest.Queue == "":
			newest = Death(d)
		}
	}
	return newest
}

// Reason returns why it died: the reason in its record, else the broker's.
func (m *Message) Reason() string {
	if m.Record != nil && m.Record.Reason != "" {
		return m.Record.Reason
	}
	return m.Origin.Reason
}

// Group returns the key of its group: dead letters of one Kind have one key if their reasons differ only in numbers,
// names and the like.
func (m *Message) Group() string { return reason.Key(string(m.Kind()), normalise(m.Reason())) }

// Name returns its ID, or its Fingerprint if it has none.
func (m *Message) Name() string { return cmp.Or(m.ID, m.Fingerprint) }

// PartitionKey returns the routing key with which the message was published to its partitioned queue. It is empty if
// the queue has no partitions, or if the message was published to one partition through the default exchange.
func (m *Message) PartitionKey() string {
	if m.Origin.Exchange != "" && broker.IsPartition(m.Origin.Queue, m.Queue) {
		return m.Origin.Key
	}
	return ""
}

// Kind of a reason, for filters and groups.
type Kind string

// Kinds of reasons.
const (
	KindFailed Kind = "failed" // the last handler returned an error
	// the last handler asked for the dead-letter queue: consumer.Reject, or exit code 65
	KindRejected      Kind = "rejected"
	KindPanicked      Kind = "panicked"       // the last handler panicked
	KindTimedOut      Kind = "timed-out"      // the last handler passed its deadline
	KindCrashed       Kind = "crashed"        // the last attempt crashed its process
	KindSkipped       Kind = "skipped"        // an operator skipped it
	KindTooOld        Kind = "too-old"        // it failed for longer than its MaxAge
	KindNoRecord      Kind = "no-record"      // a consumer rejected it, and the store has no record of that
	KindDeliveryLimit Kind = "delivery-limit" // it returned too often for the queue's limit
	KindExpired       Kind = "expired"        // its time to live, or the queue's, ended
	KindOverflow      Kind = "overflow"       // the queue was full
	KindUnknown       Kind = "unknown"        // the message does not say
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{
		KindFailed, KindRejected, KindPanicked, KindTimedOut, KindCrashed, KindSkipped, KindTooOld, KindNoRecord,
		KindDeliveryLimit, KindExpired,
		KindOverflow, KindUnknown,
	}
}

// Kind returns the kind of its reason.
func (m *Message) Kind() Kind {
	switch of, known := kindsOfDeaths[m.Origin.Reason]; {
	case known:
		return of
	case m.Record != nil:
		return cmp.Or(kindsOfCauses[m.Record.Cause], KindFailed)
	case m.Origin.Reason == "rejected":
		return KindNoRecord
	}
	return KindUnknown
}

// kindsOfDeaths has the broker's reasons that say more than a record.
var kindsOfDeaths = map[string]Kind{
	"delivery_limit": KindDeliveryLimit,
	"expired":        KindExpired,
	"maxlen":         KindOverflow,
}

var kindsOfCauses = map[counter.Cause]Kind{
	counter.CauseRejected: KindRejected,
	counter.CausePanicked: KindPanicked,
	counter.CauseCrashed:  KindCrashed,
	counter.CauseSkipped:  KindSkipped,
	counter.CauseTooOld:   KindTooOld,
	counter.CauseTimedOut: KindTimedOut,
}
