package consumer

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// link is the session's side of the wire.
type link struct {
	channel    wire
	together   func(send func()) error // see acks.Options
	alive      func() error            // asks the broker, of a session that holds lanes
	tag        string
	deliveries <-chan amqp.Delivery
	closed     <-chan *amqp.Error // the channel, also with its connection
	cancelled  <-chan string
}

// wire has the methods of *amqp.Channel that a session uses once it consumes.
type wire interface {
	Qos(prefetchCount, prefetchSize int, global bool) error
	Cancel(tag string, noWait bool) error
	Consume(queue, tag string, autoAck, exclusive, noLocal, noWait bool, args amqp.Table) (<-chan amqp.Delivery, error)
	Close() error
}

// reason returns the error that closed the channel, or nil if the library reports none. The library reports it a
// moment after the calls that failed because of it.
func (l *link) reason() (says *amqp.Error) {
	select {
	case says = <-l.closed:
	case <-time.After(closeTimeout / 10):
	}
	return says
}
