package publisher

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/dial"
)

// Dialer returns a dial for New: a new connection to url, amqp[s]://user:password@host:port/vhost, each time it is called. It is
// the same as consumer.Dialer, which says what it does beyond amqp.DialConfig; either serves consumers and publishers.
func Dialer(url string, config amqp.Config) func(context.Context) (*amqp.Connection, error) {
	return func(ctx context.Context) (*amqp.Connection, error) { return dial.Dial(ctx, url, config) }
}
