// Package amqpdial connects to RabbitMQ and judges what a connection is made of: the broker's URL, and a dial that
// failed.
package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// defaultTimeout bounds a dial, handshake included, unless the URL has a connection_timeout.
const defaultTimeout = 10 * time.Second

// Dial dials once, as consumer.Dialer documents. wrap may replace the socket.
func Dial(ctx context.Context, url string, config amqp.Config, wrap func(net.Conn) net.Conn) (*amqp.Connection, error) {
	within, err := timeout(url)
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
	var began time.Time // the handshake
	config.Dial = func(network, addr string) (net.Conn, error) {
		socket, err := connect(network, addr)
		if err == nil && socket == nil {
			err = errors.New("the Dial of the amqp.Config returned neither a connection nor an error")
		}
		if err != nil {
			return nil, err
		}
		began = time.Now()
		socket = wrap(socket)
		hangUp = func() { _ = socket.Close() }
		release = context.AfterFunc(ctx, hangUp) // the handshake takes no context
		return socket, nil
	}
	conn, err := amqp.DialConfig(url, clone(config))
	if ended := !release(); err == nil && !ended {
		return conn, nil
	}
	hangUp() // amqp091-go leaves the socket open after some failures
	if ctx.Err() != nil {
		err = fmt.Errorf("the broker does not answer: %w", ctx.Err()) // replaces the error that closing the socket caused
	}
	return nil, cutShort(err, time.Since(began))
}

// Plain returns the socket as it is.
func Plain(socket net.Conn) net.Conn { return socket }

// clone copies the parts of a config that a dial writes to: dials may share them.
func clone(config amqp.Config) amqp.Config {
	config.Properties = maps.Clone(config.Properties)
	config.TLSClientConfig = config.TLSClientConfig.Clone() // nil stays nil
	if config.Recovery != nil {
		recovery := *config.Recovery
		config.Recovery = &recovery // consumer and publisher refuse the connection
	}
	return config
}

// timeout returns how long a dial may take, or an error for an invalid URL.
func timeout(url string) (time.Duration, error) {
	u, err := ParseURL(url)
	if err != nil {
		return 0, err
	}
	if u.ConnectionTimeout > 0 {
		return time.Duration(u.ConnectionTimeout) * time.Millisecond, nil
	}
	return defaultTimeout, nil
}
