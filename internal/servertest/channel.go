package servertest

import (
	"errors"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// asking is the connection of OnChannel.
var asking connection

type connection struct {
	sync.Mutex
	url  string
	conn *amqp.Connection
}

// OnChannel runs f on a channel of its own to the shared broker. The connection is one for all calls, because tests
// poll the broker many times a second, and a connection costs both sides far more than a channel.
func OnChannel(t testing.TB, f func(*amqp.Channel) error) error {
	t.Helper()
	conn, err := asking.to(BrokerURL(t))
	if err != nil {
		return err
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close() // a refusal has closed it
	return f(ch)
}

// to dials if the last connection has ended, or if it was to another broker.
func (c *connection) to(url string) (*amqp.Connection, error) {
	c.Lock()
	defer c.Unlock()
	if c.conn == nil || c.conn.IsClosed() || c.url != url {
		if err := c.end(); err != nil {
			return nil, err
		}
		conn, err := amqp.Dial(url)
		if err != nil {
			return nil, err
		}
		c.url, c.conn = url, conn
	}
	return c.conn, nil
}

func (c *connection) close() error {
	c.Lock()
	defer c.Unlock()
	return c.end()
}

func (c *connection) end() error {
	conn := c.conn
	c.conn = nil
	if conn == nil || conn.IsClosed() {
		return nil
	}
	if err := conn.Close(); !errors.Is(err, amqp.ErrClosed) {
		return err
	}
	return nil
}
