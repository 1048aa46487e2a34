package publisher

import (
	"fmt"
	"maps"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// Partitions is a partitioned queue, see topology.Spec.Partitions. Messages of one routing key enter one partition, in
// the order in which they are published.
type Partitions struct {
	Queue string // the name with which it was declared

	// N is the number of partitions. Before RabbitMQ 4.3 the publisher chooses the partition, and a message with another
	// N than the queue's is returned (ErrUnroutable). From 4.3 on the broker chooses, and N may be zero.
	N int
}

// Message returns a message to publish, with [Publisher.Publish] or [Publisher.PublishAll]. It copies the headers of p
// to add its own. It returns ErrInvalid for a message that would break the order. Such a message has an empty key, or
// the headers CC and BCC, with which the broker chooses by another key.
func (to Partitions) Message(key string, p amqp.Publishing) (Message, error) {
	if key == "" {
		return Message{}, fmt.Errorf("%w: the routing key is empty; queue %q is partitioned by it, so give each message one",
			ErrInvalid, to.Queue)
	}
	for _, name := range []string{"CC", "BCC"} {
		if _, has := p.Headers[name]; has {
			return Message{}, fmt.Errorf("%w: the header %s would publish to other partitions of queue %q", ErrInvalid, name,
				to.Queue)
		}
	}
	headers := maps.Clone(p.Headers)
	delete(headers, broker.PartitionHeader) // a program may have copied it from a message that it received
	if to.N > 0 {
		if headers == nil {
			headers = amqp.Table{}
		}
		headers[broker.PartitionHeader] = broker.PartitionValue(broker.PartitionOf(key, to.N), to.N)
	}
	p.Headers = headers
	return Message{Exchange: to.Queue, Key: key, Publishing: p}, nil
}
