package amqpdial

import (
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/setting"
)

// Permanent reports whether another dial would fail too: a setting is refused, or the broker refuses. before is the error of the
// previous dial.
func Permanent(err, before error) bool {
	var refused *setting.FieldError
	return errors.As(err, &refused) || Refused(err, before)
}

// Refused reports whether the broker refused the connection; before is the error of the previous dial. amqp091-go reports
// ErrCredentials (and ErrVhost) also for a socket that closes in that step of the handshake. So a refusal without the broker's
// own message counts from the second equal one in a row.
func Refused(err, before error) bool {
	var refusal, earlier *amqp.Error
	if !errors.As(err, &refusal) || refusal.Code != amqp.AccessRefused && refusal.Code != amqp.NotAllowed {
		return false
	}
	return refusal.Server || errors.As(before, &earlier) && *earlier == *refusal
}
