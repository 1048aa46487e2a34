package deadletter

import (
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

var (
	// ErrUnsafe is returned, before anything is touched, by a method that the
	// queue's Handling does not allow; the text says why and what would help.
	ErrUnsafe = errors.New("deadletter: not safe")

	// ErrBusy is returned by every method that touches the queue while somebody
	// else consumes from it: another operator, or a program. Nothing was touched. Of
	// several that begin at the same moment one goes on: see the package's Locks.
	ErrBusy = errors.New("deadletter: somebody else consumes from the queue")

	// ErrNotFound is returned for a dead-letter queue that does not exist.
	ErrNotFound = errors.New("deadletter: no such queue")

	// ErrInterrupted is wrapped when the dead-letter queue's connection or channel
	// ended in the middle. The dead letters that were not settled are back.
	ErrInterrupted = errors.New("deadletter: the connection to the dead-letter queue was lost")

	// ErrIncomplete is returned, after all is done that could be, if fewer messages
	// came than the broker had counted: they expired, or somebody else has them.
	// Look again.
	ErrIncomplete = errors.New("deadletter: not all messages came")

	// ErrFailingAgain is returned by Replay when as many of the replayed messages
	// failed again as StopAfter allows. Result tells how far it came.
	ErrFailingAgain = errors.New("deadletter: replayed messages fail again")

	// ErrTarget is returned by Replay, before anything is touched, for a Target that
	// is the dead-letter queue itself.
	ErrTarget = errors.New("deadletter: nothing is replayed")

	// ErrNoOrigin is the reason why a dead letter is left: it does not say where
	// it died, so where it is to go must be given.
	ErrNoOrigin = errors.New("deadletter: the message does not say where it died")
)

// incomplete is nil if nothing is missing.
func incomplete(queue string, missing int) error {
	if missing == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of queue %q expired, or somebody else has them: look again", ErrIncomplete, missing, queue)
}

// busyError tells who is there before us. What they hold is not counted.
type busyError struct{ queue amqp.Queue }

func (e *busyError) Error() string {
	return fmt.Sprintf("%v: consumers %d, messages beside those that they hold %d", ErrBusy, e.queue.Consumers, e.queue.Messages)
}

func (*busyError) Unwrap() error { return ErrBusy }

// explain tells of a refused consumer why.
func explain(queue string, err error) error {
	var reply *amqp.Error
	if errors.Is(err, ErrBusy) {
		return fmt.Errorf("%w: queue %q, to look at it or take from it: wait for that to end, or stop it", err, queue)
	}
	if errors.As(err, &reply) {
		switch {
		case reply.Code == amqp.NotFound:
			return fmt.Errorf("%w: %q", ErrNotFound, queue)
		case reply.Code == amqp.AccessRefused && strings.Contains(reply.Reason, "exclusive use"),
			reply.Code == amqp.ResourceLocked:
			return fmt.Errorf("%w: %q: wait for it, or stop it", ErrBusy, queue)
		case strings.Contains(reply.Reason, amqp.ErrFrameTooLarge.Reason):
			return fmt.Errorf("deadletter: queue %q: %w: the headers of a message have outgrown a frame, so that nobody can receive it: raise frame_max in the broker's configuration", queue, err)
		}
	}
	return fmt.Errorf("deadletter: queue %q: %w", queue, err)
}
