package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// broker is the RabbitMQ of a figure: a private one, or one that commands kill and start, or one that is left alone.
type broker struct {
	url, version string
	private      *servers.RabbitMQ
	kill, start  string
	declared     bool // so the queues are ours to remove

	published int // numbers the messages
}

func openBroker(ctx context.Context, c config) (*broker, error) {
	b := &broker{url: c.amqp, kill: c.brokerKill, start: c.brokerStart}
	if b.url == "" {
		var err error
		if b.private, err = servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{}); err != nil {
			return nil, err
		}
		b.url = b.private.URL
	}
	if err := b.declare(ctx, topology.Type(c.kind)); err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	return b, nil
}

// declare makes the queue. A node that is killed within moments of a quorum queue's declaration may forget its log, so a
// private one is stopped and started once.
func (b *broker) declare(ctx context.Context, kind topology.Type) error {
	conn, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	b.version, _ = conn.Properties["version"].(string)
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil); err == nil {
		return fmt.Errorf("the queue %s exists, with %d messages: delete it", queue, q.Messages)
	}
	b.declared = true
	if err := topology.Declare(ctx, conn, topology.Spec{Queue: queue, Type: kind}); err != nil || b.private == nil {
		return err
	}
	return errors.Join(b.private.Stop(ctx), b.private.Start(ctx))
}

// dial opens a connection, which the caller closes.
func (b *broker) dial(context.Context) (*amqp.Connection, error) {
	return amqp.DialConfig(b.url, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second), Heartbeat: heartbeat})
}

// killed ends the broker without warning.
func (b *broker) killed(ctx context.Context) error {
	switch {
	case b.private != nil:
		return b.private.Kill()
	case b.kill != "":
		return shell(ctx, b.kill)
	}
	return errors.New("the RabbitMQ at -amqp is to be killed: name -broker-kill and -broker-start")
}

// restarted starts it, and waits until it answers.
func (b *broker) restarted(ctx context.Context) error {
	if b.private != nil {
		return b.private.Start(ctx)
	}
	if err := shell(ctx, b.start); err != nil {
		return err
	}
	return poll.Until(ctx, time.Minute, "an answer of the broker", func() error {
		conn, err := b.dial(ctx)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

func shell(ctx context.Context, command string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", command) //nolint:gosec // the user's own
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}

// producer returns a publisher that the caller closes.
func (b *broker) producer(context.Context) (*publisher.Publisher, error) {
	return publisher.New(b.dial, nil) //nolint:contextcheck // its dial is bounded by itself
}

// batch is how many messages are published at once.
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

// channel does something on a channel of its own.
func (b *broker) channel(ctx context.Context, do func(*amqp.Channel) error) error {
	conn, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return do(ch)
}

// queue tells how many messages a queue has ready, and how many consumers.
func (b *broker) queue(ctx context.Context, name string) (q amqp.Queue, err error) {
	err = b.channel(ctx, func(ch *amqp.Channel) error {
		q, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
	return q, err
}

// empty waits until the queue has nothing ready and nothing dead-lettered; what is unacked must be nobody's any more.
func (b *broker) empty(ctx context.Context) (dead int, err error) {
	q, err := b.queue(ctx, queue)
	if err != nil {
		return 0, err
	}
	if q.Messages > 0 || q.Consumers > 0 {
		return 0, fmt.Errorf("%d messages are ready and %d consumers there, when all was handled", q.Messages, q.Consumers)
	}
	q, err = b.queue(ctx, deadLetters)
	return q.Messages, err
}

func (b *broker) close(ctx context.Context) error {
	if b.private != nil {
		return b.private.Close()
	}
	if !b.declared {
		return nil
	}
	return b.channel(context.WithoutCancel(ctx), func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		_, err2 := ch.QueueDelete(deadLetters, false, false, false)
		return errors.Join(err, err2, ch.ExchangeDelete(queue+".dlx", false, false))
	})
}
