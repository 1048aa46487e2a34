package deadletter

import (
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/setting"
)

var (
	// ErrUnsafe is returned, before anything is touched, by a method that the queue's Handling does not allow. The text
	// says why.
	ErrUnsafe = errors.New("deadletter: not safe")

	// ErrWorn is returned, with ErrUnsafe, for a queue with a low delivery limit: the broker deletes a message that is
	// returned more often. A read that has begun returns it at a message that was returned half as often as the limit
	// allows. Only a Replay or a Drop of everything is safe: neither returns a message.
	ErrWorn = fmt.Errorf("%w", ErrUnsafe)

	// ErrBusy is returned, before anything is touched, while another program consumes from the queue. Of several calls
	// that begin at the same moment one goes on: see the package's Locks.
	ErrBusy = errors.New("deadletter: the queue has another consumer")

	// ErrInterrupted is returned when the connection or channel to the dead-letter queue ended during the work, or before
	// it began. The dead letters that were not settled are back.
	ErrInterrupted = errors.New("deadletter: the connection to the dead-letter queue was lost")

	// ErrUnanswered is returned if the queue does not answer, beside ErrInterrupted once the session has begun: a quorum
	// queue without a majority of its members.
	ErrUnanswered = errors.New("deadletter: the queue does not answer, as a quorum queue without a majority of " +
		"its members")

	// ErrIncomplete is returned, after all possible work is done, if fewer messages arrived than the broker had counted:
	// they expired, or another consumer has them. Browse again.
	ErrIncomplete = errors.New("deadletter: not all messages arrived")

	// ErrFailingAgain is returned by Replay when StopAfter of the replayed messages have failed again.
	ErrFailingAgain = errors.New("deadletter: replayed messages fail again")

	// ErrNoOrigin is the reason why a dead letter is left: it does not say where it died. Drop it to a file, and publish
	// that.
	ErrNoOrigin = errors.New("deadletter: the message does not say where it died")
)

// A FieldError names a refused setting, such as "Window", its value as text without passwords, and the allowed values.
// errors.As finds it. Nothing was done, and a retry does not help.
type FieldError = setting.FieldError

// incomplete returns nil if nothing is missing.
func incomplete(queue string, missing int) error {
	if missing == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of queue %q expired, or another consumer has them; browse again", ErrIncomplete,
		missing, queue)
}

// busy reports other consumers. The messages that they hold are not counted.
func busy(queue amqp.Queue) error {
	return fmt.Errorf("%w: consumers %d, messages beside those that they hold %d", ErrBusy, queue.Consumers,
		queue.Messages)
}

// explain returns the error for a session that could not begin.
func explain(queue string, err error) error {
	var reply *amqp.Error
	errors.As(err, &reply)
	switch {
	case errors.Is(err, ErrBusy):
		return fmt.Errorf("%w: queue %q, to browse it or take from it: wait for that to end, or stop it", err, queue)
	case errors.Is(err, ErrUnsafe):
		return err
	case reply == nil:
	case broker.IsMissing(err):
		return fmt.Errorf("deadletter: %w: %q", ErrQueueNotFound, queue)
	case reply.Code == amqp.AccessRefused && strings.Contains(reply.Reason, "exclusive use"),
		reply.Code == amqp.ResourceLocked:
		return fmt.Errorf("%w: %q: wait for it, or stop it", ErrBusy, queue)
	case !reply.Recover: // it closes the connection
		return fmt.Errorf("%w: queue %q: %w", ErrInterrupted, queue, err)
	}
	return fmt.Errorf("deadletter: queue %q: %w", queue, err)
}
