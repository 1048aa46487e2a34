package consumer

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/dial"
)

// Dialer returns a dial for Run: a new connection to url, amqp[s]://user:password@host:port/vhost, each time it is called, by
// any number of goroutines. config may be its zero value; what it leaves out is as amqp.Dial has it, such as a heartbeat of 10 s.
// Leave its Recovery nil: Run redials.
//
// It is amqp.DialConfig but for this. It returns when its context is done, and after 10 s at the latest, handshake included.
// It leaves config as it is, where amqp091-go wipes the passwords in its SASL, so that no second session would be let in. Its
// errors do not quote url. And the connection sends together what many goroutines write at once, where amqp091-go makes a
// system call for each ack, nack and message. Nothing is held back for it. Up to 64 KiB may be on their way when the
// connection breaks; a bare one does not say either what of it the kernel still had.
func Dialer(url string, config amqp.Config) func(context.Context) (*amqp.Connection, error) {
	return func(ctx context.Context) (*amqp.Connection, error) { return dial.Dial(ctx, url, config) }
}
