package publisher

import (
	"fmt"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
)

// maxShort is the longest AMQP short string, in bytes.
const maxShort = 255

// check refuses a message that would close the channel, or the connection: amqp091-go closes it when it fails to encode
// a frame. It returns the size of the content header frame's payload in bytes.
func check(exchange, key string, msg *amqp.Publishing) (headerSize int, err error) {
	shorts := [...]struct{ name, value string }{
		{"exchange", exchange}, {"routing key", key}, // both are in another frame
		{"MessageId", msg.MessageId}, {"ContentType", msg.ContentType}, {"ContentEncoding", msg.ContentEncoding},
		{"CorrelationId", msg.CorrelationId}, {"ReplyTo", msg.ReplyTo}, {"Expiration", msg.Expiration},
		{"Type", msg.Type}, {"UserId", msg.UserId}, {"AppId", msg.AppId},
	}
	size := 2 + 2 + 8 + 2 // class, weight, body size, flags
	for i, s := range shorts {
		if len(s.value) > maxShort {
			return 0, fmt.Errorf("%w: the %s must be at most %d bytes long, got %d", ErrInvalid, s.name, maxShort, len(s.value))
		}
		if i >= 2 && s.value != "" {
			size += 1 + len(s.value)
		}
	}
	if msg.DeliveryMode > 0 {
		size++
	}
	if msg.Priority > 0 {
		size++
	}
	if !msg.Timestamp.IsZero() {
		size += 8
	}
	if msg.DeliveryMode > amqp.Persistent {
		return 0, fmt.Errorf("%w: DeliveryMode must be amqp.Persistent or amqp.Transient, got %d", ErrInvalid,
			msg.DeliveryMode)
	}
	if msg.Expiration != "" {
		if _, err := strconv.ParseUint(msg.Expiration, 10, 64); err != nil {
			return 0, fmt.Errorf("%w: Expiration must be a whole number of milliseconds, got %q", ErrInvalid, msg.Expiration)
		}
	}
	headers, err := tableSize(msg.Headers, 0)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: header %w", ErrInvalid, err)
	case len(msg.Headers) > 0:
		size += headers
	}
	return size, nil
}
