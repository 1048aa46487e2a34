package connect

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/queueinfo"
	"github.com/strikesmq/strikes/internal/shell"
)

// noQueueError is queueinfo.ErrNotFound with a text of its own.
type noQueueError struct{ text string }

func (e noQueueError) Error() string { return e.text }
func (noQueueError) Unwrap() error   { return queueinfo.ErrNotFound }

// NoQueue replaces the error for a queue that does not exist: it says how to declare the queue, and names those whose names are similar
// if the management API lists them. It returns any other error as it is.
func (f *Flags) NoQueue(ctx context.Context, b *Broker, queue string, err error) error {
	if !errors.Is(err, queueinfo.ErrNotFound) || errors.As(err, new(noQueueError)) {
		return err
	}
	like := ""
	_ = b.With(ctx, func(conn *amqp.Connection) error { // without an answer nothing is similar
		ctx, cancel := context.WithTimeout(ctx, guessTimeout)
		defer cancel()
		need := inspect.Need{Management: f.ManagementURL}
		if need.Management == "" {
			need, _ = b.Management(ctx, conn, need)
		}
		like = doctor.DidYouMean(ctx, conn, need, queue)
		return nil
	})
	return cli.Misuse(noQueueError{fmt.Sprintf("there is no queue %q in virtual host %q%s (strikes declare %s makes it)",
		queue, b.VHost, like, shell.Operands(queue))})
}

// Ready counts the messages of a queue that are not out with a consumer.
func Ready(conn *amqp.Connection, queue string) (int, error) {
	ch, err := conn.Channel()
	if err != nil {
		return 0, err
	}
	defer ch.Close()
	q, err := queueinfo.Passive(ch, queue)
	return q.Messages, err
}
