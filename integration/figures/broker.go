package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/internal/node"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// broker is the RabbitMQ of a figure.
type broker struct {
	*node.Node
	version   string
	declared  bool // the queues are ours to remove
	published int  // numbers the messages
}

func openBroker(ctx context.Context, c config) (_ *broker, err error) {
	b := &broker{Node: &node.Node{URL: c.amqp, KillCommand: c.brokerKill, StartCommand: c.brokerStart}}
	if b.URL == "" {
		if b.Private, err = servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{}); err != nil {
			return nil, err
		}
		b.URL = b.Private.URL
	}
	if b.version, err = b.Declare(ctx, topology.Spec{Queue: queue, Type: topology.Type(c.kind)}); err == nil {
		b.declared = true
		err = b.Restart(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// dial opens a connection, which the caller closes.
func (b *broker) dial(context.Context) (*amqp.Connection, error) {
	return amqp.DialConfig(b.URL, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second), Heartbeat: heartbeat})
}

// producer returns a publisher that the caller closes.
func (b *broker) producer(context.Context) (*publisher.Publisher, error) {
	return publisher.New(b.dial, nil) //nolint:contextcheck // its dial is bounded by itself
}

// batch is how many messages are published together.
const batch = 500

// publish publishes messages with these bodies, confirmed, under ids of their own.
func (b *broker) publish(ctx context.Context, p *publisher.Publisher, bodies ...string) error {
	for len(bodies) > 0 {
		msgs := make([]publisher.Message, 0, batch)
		for _, body := range bodies[:min(batch, len(bodies))] {
			b.published++
			msgs = append(msgs, publisher.Message{
				Key: queue, Publishing: amqp.Publishing{MessageId: fmt.Sprintf("m%07d", b.published), Body: []byte(body)},
			})
		}
		if err := p.PublishAll(ctx, msgs); err != nil {
			return err
		}
		bodies = bodies[len(msgs):]
	}
	return nil
}

// empty fails unless the queue has no message and no consumer. It returns the number of dead letters.
func (b *broker) empty() (dead int, err error) {
	q, err := b.Queue(queue)
	if err != nil {
		return 0, err
	}
	if q.Messages > 0 || q.Consumers > 0 {
		return 0, fmt.Errorf("%d messages are ready and %d consumers there, when all was handled", q.Messages, q.Consumers)
	}
	q, err = b.Queue(deadLetters)
	return q.Messages, err
}

func (b *broker) close() error {
	switch {
	case b.Private != nil:
		return b.Private.Close()
	case b.declared:
		return b.Remove(queue)
	}
	return nil
}
