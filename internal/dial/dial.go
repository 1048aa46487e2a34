// Package dial connects consumers and publishers to RabbitMQ.
package dial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// timeout bounds a dial, handshake included, unless the URL has a connection_timeout.
const timeout = 10 * time.Second

// Dial does once what consumer.Dialer documents, on what wrap makes of the socket.
func Dial(ctx context.Context, uri string, config amqp.Config, wrap func(net.Conn) net.Conn) (*amqp.Connection, error) {
	within, err := bound(uri)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	connect := config.Dial
	if connect == nil {
		connect = func(network, addr string) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, addr) }
	}
	hangUp, release := func() {}, func() bool { return true }
	config.Dial = func(network, addr string) (net.Conn, error) {
		socket, err := connect(network, addr)
		if err == nil && socket == nil {
			err = errors.New("the Dial of the amqp.Config returned neither a connection nor an error")
		}
		if err != nil {
			return nil, err
		}
		socket = wrap(socket)
		hangUp = func() { _ = socket.Close() }
		release = context.AfterFunc(ctx, hangUp) // the handshake knows no context
		return socket, nil
	}
	conn, err := amqp.DialConfig(uri, own(config))
	if ended := !release(); err == nil && !ended {
		return conn, nil
	}
	hangUp() // amqp091-go does not always
	if ctx.Err() != nil {
		err = fmt.Errorf("the broker does not answer: %w", ctx.Err()) // what the closed socket led to is of no interest
	}
	return nil, err
}

// Plain is a socket as it is.
func Plain(socket net.Conn) net.Conn { return socket }

// own copies what a dial writes into, for others may dial at the same time.
func own(config amqp.Config) amqp.Config {
	config.Properties = maps.Clone(config.Properties)
	config.TLSClientConfig = config.TLSClientConfig.Clone() // nil stays nil
	if config.Recovery != nil {
		recovery := *config.Recovery
		config.Recovery = &recovery // to be refused by whoever gets the connection
	}
	return config
}

// bound returns how long a dial may take, or an error for an invalid URI.
func bound(uri string) (time.Duration, error) {
	u, err := Parse(uri)
	if err != nil {
		return 0, err
	}
	if u.ConnectionTimeout > 0 {
		return time.Duration(u.ConnectionTimeout) * time.Millisecond, nil
	}
	return timeout, nil
}
