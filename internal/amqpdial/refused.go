package amqpdial

import (
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Refused reports whether the broker refused the connection, so that another dial would fail too; before is the error of the
// previous dial. amqp091-go reports ErrCredentials (and ErrVhost) also for a socket that closes in that step of the handshake.
// So a refusal without the broker's own message counts from the second equal one in a row.
func Refused(err, before error) bool {
	var refusal, earlier *amqp.Error
	if !errors.As(err, &refusal) || refusal.Code != amqp.AccessRefused && refusal.Code != amqp.NotAllowed {
		return false
	}
	return refusal.Server || errors.As(before, &earlier) && *earlier == *refusal
}
