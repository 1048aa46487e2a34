package publisher

import (
	"context"
	"net"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/amqpdial"
)

// BufferedDialer returns a dial function for New. It is consumer.Dialer with a connection that sends together what many
// goroutines publish concurrently; amqp091-go alone makes a system call per message. It delays no message, but a message that
// still waits for the socket is lost if the process dies. So use it for publishing with confirms, not for a consumer: it may
// lose acks.
func BufferedDialer(url string, config amqp.Config) func(context.Context) (*amqp.Connection, error) {
	return func(ctx context.Context) (*amqp.Connection, error) {
		return amqpdial.Dial(ctx, url, config, func(socket net.Conn) net.Conn { return gather(socket) })
	}
}
