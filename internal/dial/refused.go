package dial

import (
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Refused reports whether the broker refuses the connection, so that another dial would fail too; before is the error of the
// previous one. amqp091-go reports a wrong password as ErrCredentials, but also a socket that is closed in that moment of the
// handshake (and ErrVhost likewise). So a refusal that the broker did not send counts from the second equal one in a row.
func Refused(err, before error) bool {
	var said, earlier *amqp.Error
	if !errors.As(err, &said) || said.Code != amqp.AccessRefused && said.Code != amqp.NotAllowed {
		return false
	}
	return said.Server || errors.As(before, &earlier) && *earlier == *said
}
