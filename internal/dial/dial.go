// Package dial connects consumers and publishers to RabbitMQ.
package dial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Timeout bounds a dial, handshake included.
const Timeout = 10 * time.Second

// Dial does once what consumer.Dialer documents.
func Dial(ctx context.Context, uri string, config amqp.Config) (*amqp.Connection, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	config = own(config)
	connect := config.Dial
	if connect == nil {
		connect = func(network, addr string) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, addr) }
	}
	hangUp, release := func() {}, func() bool { return true }
	config.Dial = func(network, addr string) (net.Conn, error) {
		socket, err := connect(network, addr)
		if err != nil {
			return nil, err
		}
		g := gather(socket)
		hangUp = func() { _ = g.Close() }
		release = context.AfterFunc(ctx, func() { _ = socket.Close() }) // the handshake knows no context
		return g, nil
	}
	conn, err := amqp.DialConfig(uri, config)
	if !release() {
		err = fmt.Errorf("it does not answer: %w", context.Cause(ctx)) // what the closed socket led to is of no interest
	}
	if err == nil {
		return conn, nil
	}
	hangUp() // amqp091-go does not always
	return nil, discreet(err)
}

// own copies what a dial changes: the properties, the TLS configuration, and the passwords, which it wipes. With the
// caller's own, no second dial would be let in.
func own(config amqp.Config) amqp.Config {
	config.Properties = maps.Clone(config.Properties)
	config.TLSClientConfig = config.TLSClientConfig.Clone() // nil stays nil
	config.SASL = slices.Clone(config.SASL)
	for i, with := range config.SASL {
		switch with := with.(type) {
		case *amqp.PlainAuth:
			c := *with
			config.SASL[i] = &c
		case *amqp.AMQPlainAuth:
			c := *with
			config.SASL[i] = &c
		}
	}
	return config
}

// discreet takes a URI that cannot be parsed, and the password in it, out of the error that says so.
func discreet(err error) error {
	var bad *url.Error
	if errors.As(err, &bad) {
		return &url.Error{Op: bad.Op, URL: "the broker's URL", Err: errMalformed}
	}
	return err
}

var errMalformed = errors.New("it is amqp[s]://user:password@host:port/vhost, with / @ : ? # % in a name or password percent-encoded")
