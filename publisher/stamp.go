package publisher

import (
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// Stamp sets msg.MessageId to a new UUIDv7 if it is empty, and returns the
// MessageId. It changes nothing else. [Publisher.Publish] stamps; Stamp is for
// those who publish by other means, or store the id before they publish.
//
// An id of one's own must be unique among the messages that are in a queue:
// consumers count two messages of one id as one.
func Stamp(msg *amqp.Publishing) string {
	if msg.MessageId == "" {
		// Version 7 begins with the time: ids sort by age wherever they are listed.
		msg.MessageId = uuid.Must(uuid.NewV7()).String()
	}
	return msg.MessageId
}
