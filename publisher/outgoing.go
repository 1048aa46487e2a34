package publisher

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

type state int

const (
	queued  state = iota // nothing of it was sent
	writing              // some of it may have been sent
	settled              // err is final and done is closed
)

// outgoing is a message between the call that publishes it and its fate. What
// follows done is guarded by the ledger; err may be read once done is closed.
type outgoing struct {
	exchange, key string
	msg           amqp.Publishing
	headerSize    int // bytes, of the content header frame's payload
	done          chan struct{}

	state    state
	order    uint64 // of writing, within its session
	since    time.Time
	confirm  *amqp.DeferredConfirmation // nil until it is written
	returned *amqp.Return               // without its body
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

// route is all that a basic.return tells of which publish it answers.
type route struct{ exchange, key, id string }

func (o *outgoing) route() route { return route{o.exchange, o.key, o.msg.MessageId} }

// fail makes the error for a message whose fate is decided by this side alone.
func (o *outgoing) fail(undecided bool, cause error) error {
	return o.failCode(undecided, cause, 0, "")
}

func (o *outgoing) failCode(undecided bool, cause error, code int, reason string) error {
	return &Error{
		ID: o.msg.MessageId, Exchange: o.exchange, Key: o.key,
		Undecided: undecided, Code: code, Reason: reason, Err: cause,
	}
}

// confirmed is the fate of a message that the broker has answered. The broker
// acknowledges what it returned, too: the return comes first and tells.
func (o *outgoing) confirmed(ack bool) error {
	switch {
	case o.returned != nil:
		return o.failCode(false, ErrUnroutable, int(o.returned.ReplyCode), o.returned.ReplyText)
	case !ack:
		return o.fail(false, ErrNacked)
	}
	return nil
}
