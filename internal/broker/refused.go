package broker

import (
	"errors"
	"fmt"
	"io"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/setting"
)

// Permanent reports whether another dial would fail too: a setting is refused, or the broker refuses. before is the
// error of the previous dial.
func Permanent(err, before error) bool {
	var refused *setting.FieldError
	return errors.As(err, &refused) || Refused(err, before)
}

// Refused reports whether the broker refused the connection; before is the error of the previous dial. RabbitMQ
// closes the connection after a wrong password, without a reason. So the second such error in a row counts as a
// refusal. Connect and Dial have already excluded a socket that was cut.
func Refused(err, before error) bool {
	var refusal, earlier *amqp.Error
	if !errors.As(err, &refusal) || refusal.Code != amqp.AccessRefused && refusal.Code != amqp.NotAllowed {
		return false
	}
	return refusal.Server || errors.As(before, &earlier) && *earlier == *refusal
}

// silentRefusal is how long a handshake lasts at least that RabbitMQ refuses without a word: it waits 3 s before it
// closes the socket (SILENT_CLOSE_DELAY; measured on 3.10.8 and 4.3.6).
const silentRefusal = 2 * time.Second

// cutShort returns the error of a dial that took so long. amqp091-go reports ErrCredentials, or ErrVhost, also if the
// socket closes in that step of the handshake. Such an error says that the connection was cut, not that the broker
// refused, if it came too soon, or if the broker would have given a reason.
func cutShort(err error, took time.Duration) error {
	var refusal *amqp.Error
	if errors.As(err, &refusal) && (*refusal == *amqp.ErrVhost || *refusal == *amqp.ErrCredentials &&
		took < silentRefusal) {
		return errCut
	}
	return err
}

var errCut = fmt.Errorf("the connection was closed in the handshake, too soon for a refusal: %w", io.ErrUnexpectedEOF)
