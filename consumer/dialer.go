package consumer

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// Dialer returns a dial for Run. Each call dials a new connection to url, amqp[s]://user:password@host:port/vhost. Any
// number of goroutines may call it. config may be its zero value. A field without a value has the default of
// amqp.Dial, such as a heartbeat of 10 s. url's heartbeat and connection_timeout override those of config. Leave its
// Recovery nil: Run redials.
//
// It differs from amqp.DialConfig in this: It returns when its context is done, and after 10 s, or url's
// connection_timeout, at the latest, handshake included; a Dial function in config must do that itself. It shares
// nothing of config with the connection that a dial writes into. An invalid url is a FieldError, which does not quote
// it; Run then returns instead of dialling again. On such a connection a Consumer sends acks that are due at the same
// time with one system call, so it is faster than on another one.
//
// url takes those of RabbitMQ's URI query parameters that amqp091-go obeys: heartbeat (seconds), connection_timeout
// (milliseconds), channel_max, auth_mechanism, and for amqps cacertfile, certfile, keyfile, server_name_indication and
// verify=verify_peer, which is always in force. Any other parameter is refused, not ignored.
func Dialer(url string, config amqp.Config) func(context.Context) (*amqp.Connection, error) {
	return func(ctx context.Context) (*amqp.Connection, error) {
		return broker.Dial(ctx, url, config)
	}
}
