package broker

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ErrNotFound says that a queue does not exist in the virtual host of the connection.
var ErrNotFound = errors.New("queue not found")

// Answer to a question that may not have been put.
type Answer int8

// What is known.
const (
	Unknown Answer = iota
	No
	Yes
)

// Passive returns the number of ready messages and of consumers of a queue. An error closes the channel, such as 404
// for a queue that does not exist. From RabbitMQ 4.0 on it needs any one permission on the queue; 3.10.8 needs none.
func Passive(ch *amqp.Channel, queue string) (amqp.Queue, error) {
	return ch.QueueDeclarePassive(queue, false, false, false, false, nil)
}

// FindQueue is Passive on a channel of its own, and says whether the queue exists. A refusal is an error too: see
// UnlessRefused.
func FindQueue(ctx context.Context, conn *amqp.Connection, queue string) (found Answer, q amqp.Queue, err error) {
	found, err = ask(ctx, conn, func(ch *amqp.Channel) error {
		q, err = Passive(ch, queue)
		return err
	})
	return found, q, err
}

// FindExchange says whether an exchange exists. A refusal is an error too: see UnlessRefused.
func FindExchange(ctx context.Context, conn *amqp.Connection, name string) (Answer, error) {
	return ask(ctx, conn, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(name, "", false, false, false, false, nil)
	})
}

func ask(ctx context.Context, conn *amqp.Connection, declare func(*amqp.Channel) error) (Answer, error) {
	err := OnChannel(ctx, conn, declare)
	var reply *amqp.Error
	switch {
	case err == nil:
		return Yes, nil
	case errors.As(err, &reply) && reply.Code == amqp.NotFound:
		return No, nil
	}
	return Unknown, err
}

// UnlessRefused drops the error of a question that the broker refused: the answer is unknown.
func UnlessRefused(err error) error {
	var reply *amqp.Error
	if errors.As(err, &reply) && isRefusal(reply.Code) {
		return nil
	}
	return err
}

func isRefusal(code int) bool {
	return code == amqp.PreconditionFailed || code == amqp.AccessRefused || code == amqp.ResourceLocked
}

// OnChannel runs f on a channel of its own, because a refusal closes the channel. A call of amqp091 that has begun
// takes no context: it ends with its reply or with the connection.
func OnChannel(ctx context.Context, conn *amqp.Connection, f func(*amqp.Channel) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	err = f(ch)
	if closeErr := ch.Close(); err == nil && !errors.Is(closeErr, amqp.ErrClosed) {
		return closeErr
	}
	return err
}
