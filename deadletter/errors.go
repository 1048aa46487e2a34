package deadletter

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/amqpdial"
	"github.com/strikesmq/strikes/internal/setting"
)

var (
	// ErrUnsafe is returned, before anything is touched, by a method that the queue's Handling does not allow. The text says why.
	ErrUnsafe = errors.New("deadletter: not safe")

	// ErrWorn is returned, with ErrUnsafe, for a queue with a message that was returned so often that another read may delete it. Only a
	// Replay or a Drop of everything is safe: neither returns a message.
	ErrWorn = fmt.Errorf("%w", ErrUnsafe)

	// ErrBusy is returned, before anything is touched, while another program consumes from the queue. Of several calls that begin at
	// the same moment one goes on: see the package's Locks.
	ErrBusy = errors.New("deadletter: the queue has another consumer")

	// ErrInterrupted is returned when the connection or channel to the dead-letter queue ended during the work. The dead letters
	// that were not settled are back.
	ErrInterrupted = errors.New("deadletter: the connection to the dead-letter queue was lost")

	// ErrUndecodable is returned, with ErrInterrupted, for a queue with a message that amqp091-go cannot decode. No message behind it
	// can be read. The text says how to take it out.
	ErrUndecodable = errors.New("deadletter: a message cannot be decoded")

	// ErrIncomplete is returned, after all possible work is done, if fewer messages arrived than the broker had counted: they
	// expired, or another consumer has them. Browse again.
	ErrIncomplete = errors.New("deadletter: not all messages arrived")

	// ErrFailingAgain is returned by Replay when StopAfter of the replayed messages have failed again.
	ErrFailingAgain = errors.New("deadletter: replayed messages fail again")

	// ErrTarget is returned by Replay, before anything is touched, for a Target that is the dead-letter queue itself.
	ErrTarget = errors.New("deadletter: nothing is replayed")

	// ErrNoOrigin is the reason why a dead letter is left: it does not say where it died, so give a Target.
	ErrNoOrigin = errors.New("deadletter: the message does not say where it died")
)

// A FieldError names a refused setting, such as "Window", its value as text without passwords, and what it must be. errors.As finds
// it. Nothing was done, and a retry does not help.
type FieldError = setting.FieldError

// incomplete returns nil if nothing is missing.
func incomplete(queue string, missing int) error {
	if missing == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of queue %q expired, or another consumer has them; browse again", ErrIncomplete, missing, queue)
}

// busyError reports other consumers. The messages that they hold are not counted.
type busyError struct{ queue amqp.Queue }

func (e *busyError) Error() string {
	return fmt.Sprintf("%v: consumers %d, messages beside those that they hold %d", ErrBusy, e.queue.Consumers, e.queue.Messages)
}

func (*busyError) Unwrap() error { return ErrBusy }

// explain returns the error for a session that could not begin.
func explain(queue string, err error) error {
	var reply *amqp.Error
	if errors.Is(err, ErrBusy) {
		return fmt.Errorf("%w: queue %q, to browse it or take from it: wait for that to end, or stop it", err, queue)
	}
	if errors.Is(err, ErrUnsafe) {
		return err
	}
	if errors.As(err, &reply) {
		switch {
		case reply.Code == amqp.NotFound:
			return fmt.Errorf("deadletter: %w: %q", ErrQueueNotFound, queue)
		case reply.Code == amqp.AccessRefused && strings.Contains(reply.Reason, "exclusive use"),
			reply.Code == amqp.ResourceLocked:
			return fmt.Errorf("%w: %q: wait for it, or stop it", ErrBusy, queue)
		}
	}
	if err := undecodable(queue, 0, err); err != nil {
		return err
	}
	return fmt.Errorf("deadletter: queue %q: %w", queue, err)
}

// interrupted returns the error for a session that ended by itself after so many messages were read.
func interrupted(queue string, read int, why error) error {
	if err := undecodable(queue, read, why); err != nil {
		return err
	}
	return fmt.Errorf("%w: queue %q: %w", ErrInterrupted, queue, why)
}

// undecodable returns nil unless a message ended the connection that cannot be decoded.
func undecodable(queue string, read int, why error) error {
	var closed *amqp.Error
	errors.As(why, &closed)
	wrong, fix := amqpdial.Undecodable(closed)
	if wrong == "" {
		return nil
	}
	how := takeOut(queue)
	if strings.HasPrefix(fix, "raise frame_max") {
		how = "raise frame_max in the broker's configuration, or " + how
	}
	return fmt.Errorf("%w: queue %q: %s; it is message %d of the queue, or a later one; %s: %w: %w", ErrUndecodable, queue, wrong, read+1, how, ErrInterrupted, why)
}

// takeOut says how to take an undecodable message out of a dead-letter queue, whatever its type and delivery limit. The management API
// decodes it, and takes messages off from the head without returning one.
func takeOut(queue string) string {
	return `take it out with the management API, which removes the first message of the queue and prints it, and returns no other: ` +
		`curl -u USER -d '{"count":1,"ackmode":"ack_requeue_false","encoding":"auto"}' http://HOST:15672/api/queues/VHOST/` +
		strings.ReplaceAll(url.PathEscape(queue), "'", "%27") + `/get; repeat it until it prints that message, and publish those before it again`
}
