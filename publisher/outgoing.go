package publisher

import (
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

type state int

const (
	queued  state = iota // no byte was sent
	writing              // bytes may have been sent
	settled              // err is final and done is closed
)

// confirmation is the broker's answer to a message: an *amqp.DeferredConfirmation.
type confirmation interface {
	Done() <-chan struct{}
	Acked() bool
}

// outgoing is a message from the call that publishes it until it is settled. The ledger guards the fields after done;
// err may be read once done is closed.
type outgoing struct {
	exchange, key string
	msg           amqp.Publishing
	headerSize    int // bytes, of the content header frame's payload
	done          chan struct{}

	state    state
	order    uint64 // of writing
	since    time.Time
	confirm  confirmation // nil until the message is written
	returned *amqp.Return // without its body
	err      error
}

func newOutgoing(exchange, key string, msg *amqp.Publishing) *outgoing {
	Stamp(msg)
	o := &outgoing{exchange: exchange, key: key, msg: *msg, done: make(chan struct{})}
	if o.msg.DeliveryMode == 0 {
		o.msg.DeliveryMode = amqp.Persistent
	}
	return o
}

// route identifies the message that a basic.return answers, as far as the return can.
type route struct{ exchange, key, id string }

func (o *outgoing) route() route { return route{o.exchange, o.key, o.msg.MessageId} }

// fail returns the error of a message that failed without a reply of the broker.
func (o *outgoing) fail(undecided bool, cause error) error {
	return o.failCode(undecided, cause, 0, "")
}

func (o *outgoing) failCode(undecided bool, cause error, code int, reason string) error {
	return &Error{
		ID: o.msg.MessageId, Exchange: o.exchange, Key: o.key,
		Undecided: undecided, Code: code, Reason: reason, Err: cause,
	}
}

// outcome returns the result by the broker's answer, or otherwise if it has not answered. The broker also acks a
// message that it returned; the return comes first.
func (o *outgoing) outcome(otherwise error) error {
	switch {
	case o.returned != nil:
		return o.failCode(false, ErrUnroutable, int(o.returned.ReplyCode), o.returned.ReplyText)
	case o.confirm != nil && o.confirm.Acked():
		return nil
	}
	return otherwise
}

// Stamp sets an empty msg.MessageId to a new UUIDv7 and returns the MessageId. It changes nothing else.
// [Publisher.Publish] stamps. Use Stamp to publish by other means, or to store the id before publishing.
//
// An id of your own must be unique among the messages in a queue: consumers count two messages with one id as one.
func Stamp(msg *amqp.Publishing) string {
	if msg.MessageId == "" {
		msg.MessageId = uuid.Must(uuid.NewV7()).String() // version 7 begins with the time, so ids sort by age
	}
	return msg.MessageId
}
