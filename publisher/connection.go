package publisher

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// closeGrace is how long the broker may take to answer connection.close.
const closeGrace = time.Second

// connection is a connection and what it says of itself. It outlives the
// sessions on it, and a listener cannot be taken back, so these are its own.
type connection struct {
	*amqp.Connection
	blocked chan amqp.Blocking
	closed  chan *amqp.Error
}

// newConnection listens to conn. blocked has room for what may come between
// two sessions, when nobody receives: a full one would hold up the reader.
func newConnection(conn *amqp.Connection) *connection {
	return &connection{
		Connection: conn,
		blocked:    conn.NotifyBlocked(make(chan amqp.Blocking, 16)),
		closed:     conn.NotifyClose(make(chan *amqp.Error, 1)),
	}
}

// close ends the connection, whatever it is doing. Its error would only say
// that the connection went away by itself.
func (c *connection) close() { _ = c.CloseDeadline(time.Now().Add(closeGrace)) }
