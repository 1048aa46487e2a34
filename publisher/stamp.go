package publisher

import (
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

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
