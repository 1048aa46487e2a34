package connect

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/shell"
)

// noQueueError is queueinfo.ErrNotFound with a text of its own.
type noQueueError struct{ text string }

func (e noQueueError) Error() string { return e.text }
func (noQueueError) Unwrap() error   { return broker.ErrNotFound }

// NoQueue replaces the error for a queue that does not exist: it says how to declare the queue, and names those whose
// names are similar if the management API lists them. It returns any other error as it is.
func (b *Broker) NoQueue(ctx context.Context, queue string, err error) error {
	if !errors.Is(err, broker.ErrNotFound) || errors.As(err, new(noQueueError)) {
		return err
	}
	like := ""
	_ = b.With(ctx, func(conn *amqp.Connection) error { // without an answer nothing is similar
		ctx, cancel := context.WithTimeout(ctx, guessTimeout)
		defer cancel()
		need, _ := b.Management(ctx, conn, inspect.Need{})
		like = doctor.DidYouMean(ctx, conn, need, queue)
		return nil
	})
	return cli.Misuse(noQueueError{fmt.Sprintf("there is no queue %q in virtual host %q%s (strikes declare %s makes it)",
		queue, b.VHost, like, shell.Operands(queue))})
}

// RefuseMissing refuses a queue that the broker does not have, as NoQueue does. It asks for three seconds at most, and
// refuses nothing if the broker does not answer: the records of a queue are in the store.
func (f *Flags) RefuseMissing(ctx context.Context, queue string) error {
	_, err := f.Partitions(ctx, queue)
	return err
}

// Partitions is RefuseMissing, and returns the number of partitions.
func (f *Flags) Partitions(ctx context.Context, queue string) (partitions int, err error) {
	b, err := f.Broker()
	if err != nil {
		return 0, nil //nolint:nilerr // it cannot be asked
	}
	asking, cancel := context.WithTimeout(ctx, guessTimeout)
	defer cancel()
	var found broker.Answer
	_ = b.With(asking, func(conn *amqp.Connection) (err error) { // after an error it is not known
		if found, _, err = broker.FindQueue(asking, conn, queue); found == broker.No {
			if partitions, err = broker.PartitionsOf(asking, conn, queue); partitions > 0 || err != nil {
				found = broker.Yes
			}
		}
		return err
	})
	if found != broker.No {
		return partitions, nil
	}
	return 0, b.NoQueue(ctx, queue, broker.ErrNotFound)
}
