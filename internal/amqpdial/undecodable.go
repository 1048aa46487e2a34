package amqpdial

import (
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Undecodable returns what is wrong with a message over which amqp091-go closed the connection, and how to remove it from its queue;
// empty if no message did. The library's reader reports ErrSyntax and ErrFrameTooLarge only by their texts, as the reason of a frame
// error. The management API decodes such messages (tried on 4.3).
func Undecodable(closed *amqp.Error) (wrong, fix string) {
	switch {
	case closed == nil || closed.Server:
		return "", ""
	case strings.Contains(closed.Reason, amqp.ErrSyntax.Reason):
		return "its headers are nested deeper than 32 levels, or hold over 8,192 elements", takeOut
	case strings.Contains(closed.Reason, amqp.ErrFrameTooLarge.Reason):
		return "its headers have outgrown a frame", "raise frame_max in the broker's configuration; or " + takeOut
	}
	return "", ""
}

const takeOut = "take it out: stop the consumers, and in the management UI use Get messages with Reject requeue false; a quorum queue dead-letters it by itself at its delivery limit"
