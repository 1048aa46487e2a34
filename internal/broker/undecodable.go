package broker

import (
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Undecodable returns what is wrong with a message that ended a connection, and how to remove it from its queue;
// empty if no message did. Either amqp091-go cannot decode the message, or the broker cannot convert it: see
// Unconverted. The library's reader reports ErrSyntax and ErrFrameTooLarge only by their texts, as the reason of a
// frame error. The management API decodes such messages (tried on 4.3).
func Undecodable(closed *amqp.Error) (wrong, fix string) {
	switch {
	case Unconverted(closed):
		return "the broker closed the connection with 541, as it does for a message that it cannot convert to AMQP 0.9.1: " +
			"one published over AMQP 1.0, for example with a property of type uuid or a content type over 255 bytes", takeOut1
	case closed == nil || closed.Server:
		return "", ""
	case strings.Contains(closed.Reason, amqp.ErrSyntax.Reason):
		return "its headers are nested deeper than 32 levels, or hold over 8,192 elements", takeOut
	case strings.Contains(closed.Reason, amqp.ErrFrameTooLarge.Reason):
		return "its headers have outgrown a frame", "raise frame_max in the broker's configuration; or " + takeOut
	}
	return "", ""
}

// Unconverted reports whether the broker closed a connection as it does when it cannot convert a message to AMQP
// 0.9.1 (4.0.5, 4.3.6). RabbitMQ uses this code for its other internal errors too. So only a connection that receives
// one message at a time blames a message rightly, and only one that meets it repeatedly is sure.
func Unconverted(closed *amqp.Error) bool {
	return closed != nil && closed.Server && closed.Code == amqp.InternalError
}

// noMajority is less than the 5 s that RabbitMQ waits for the majority of a quorum queue's members (3.10.8).
const noMajority = 4 * time.Second

// Unanswered reports whether a connection ended because the queue did not answer a request of that time, if it is not
// zero: the broker gave up with 541, or the client closed it. A quorum queue without a majority of its members does not
// answer. A message that the broker cannot convert ends the connection with 541 too, but at once; one that the client
// cannot decode ends it with a reason of its own.
func Unanswered(closed *amqp.Error, asked time.Time) bool {
	if closed == nil || asked.IsZero() || time.Since(asked) < noMajority {
		return false
	}
	wrong, _ := Undecodable(closed)
	return Unconverted(closed) || !closed.Server && wrong == ""
}

const (
	takeOut = "take it out: stop the consumers, and in the management UI use Get messages with Reject requeue false; a " +
		"quorum queue dead-letters it by itself at its delivery limit"
	takeOut1 = "take it out with an AMQP 1.0 receiver, because the management API cannot read it either " +
		"(docs/operations.md#a-message-cannot-be-decoded has one); a quorum queue dead-letters it by itself at its " +
		"delivery limit"
)
