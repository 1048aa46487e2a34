package publisher

import (
	"context"
	"net"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/amqpdial"
)

// Dialer returns a dial for New: what consumer.Dialer does, on a connection that sends together what many goroutines write at
// once, where amqp091-go makes a system call for each message. Nothing is held back for it, but what was written and is still
// in line is lost if the process dies. So it is for publishing with confirms, and not for a consumer, whose acks it may lose.
func Dialer(url string, config amqp.Config) func(context.Context) (*amqp.Connection, error) {
	return func(ctx context.Context) (*amqp.Connection, error) {
		return amqpdial.Dial(ctx, url, config, func(socket net.Conn) net.Conn { return gather(socket) })
	}
}
