package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/topology"
)

const (
	queue       = "soak"
	deadLetters = queue + ".dlq"
)

// broker is the RabbitMQ of a soak: a private one, or one that commands kill and start, or one that is left alone.
type broker struct {
	url     string
	host    string
	private *servers.RabbitMQ
	kill    string
	start   string

	declared bool // so the queues are ours to remove
}

func openBroker(ctx context.Context, cfg config) (*broker, error) {
	b := &broker{url: cfg.amqp, kill: cfg.brokerKill, start: cfg.brokerStart}
	if b.url == "" {
		var err error
		if b.private, err = servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{}); err != nil {
			return nil, err
		}
		b.url = b.private.URL
	}
	u, err := url.Parse(b.url)
	if err != nil {
		return nil, errors.Join(errors.New("-amqp is not a URL"), b.close())
	}
	b.host = u.Host
	return b, nil
}

// through returns the broker's URL with the address of a proxy in it.
func (b *broker) through(p *proxy) string {
	u, err := url.Parse(b.url)
	if err != nil {
		panic(err) // openBroker has parsed it
	}
	u.Host = p.addr()
	return u.String()
}

func (b *broker) canKill() bool { return b.private != nil || b.kill != "" }

// killed ends the broker without warning.
func (b *broker) killed(ctx context.Context) error {
	if b.private != nil {
		return b.private.Kill()
	}
	return shell(ctx, b.kill)
}

// restarted starts it, and waits until it answers.
func (b *broker) restarted(ctx context.Context) error {
	if b.private != nil {
		return b.private.Start(ctx)
	}
	if err := shell(ctx, b.start); err != nil {
		return err
	}
	return eventually(ctx, time.Minute, "an answer of the broker", func() error {
		return b.onChannel(func(*amqp.Channel) error { return nil })
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

// declare makes the queue and its dead-letter way. A node that is killed within moments of a quorum queue's declaration may
// forget its log, so a private one is stopped and started once.
func (b *broker) declare(ctx context.Context, kind string) error {
	err := b.onConnection(func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		if q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil); err == nil {
			return fmt.Errorf("the queue %s exists, with %d messages: delete it", queue, q.Messages)
		}
		b.declared = true
		if kind == mixed {
			return declareMixed(conn)
		}
		return topology.Declare(ctx, conn, topology.Spec{Queue: queue, Type: topology.Type(kind)})
	})
	if err != nil || b.private == nil {
		return err
	}
	return errors.Join(b.private.Stop(ctx), b.private.Start(ctx))
}

// declareMixed makes a classic queue whose dead letters go to a quorum queue, which writes them down at once.
func declareMixed(conn *amqp.Connection) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	exchange := queue + ".dlx"
	_, err = ch.QueueDeclare(deadLetters, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	if err == nil {
		err = ch.ExchangeDeclare(exchange, amqp.ExchangeFanout, true, false, false, false, nil)
	}
	if err == nil {
		err = ch.QueueBind(deadLetters, "", exchange, false, nil)
	}
	if err == nil {
		_, err = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{
			"x-queue-type": "classic", "x-dead-letter-exchange": exchange,
		})
	}
	return err
}

// remove deletes what declare made, on a broker that is not ours.
func (b *broker) remove() error {
	if b.private != nil || !b.declared {
		return nil
	}
	return b.onChannel(func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		_, err2 := ch.QueueDelete(deadLetters, false, false, false)
		return errors.Join(err, err2, ch.ExchangeDelete(queue+".dlx", false, false))
	})
}

// depth is the number of messages that a queue has ready.
func (b *broker) depth(name string) (n int, err error) {
	err = b.onChannel(func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n, err
}

func (b *broker) onChannel(do func(*amqp.Channel) error) error {
	return b.onConnection(func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		return do(ch)
	})
}

// onConnection bounds an exchange with a broker that may be paused or recovering.
func (b *broker) onConnection(do func(*amqp.Connection) error) error {
	conn, err := amqp.DialConfig(b.url, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second), Heartbeat: heartbeat})
	if err != nil {
		return err
	}
	bound := time.AfterFunc(15*time.Second, func() { _ = conn.CloseDeadline(time.Now()) })
	defer bound.Stop()
	defer func() { _ = conn.CloseDeadline(time.Now().Add(5 * time.Second)) }()
	return do(conn)
}

func (b *broker) close() error {
	if b.private == nil {
		return nil
	}
	return b.private.Close()
}

// eventually polls until check has no error, or the time is over.
func eventually(ctx context.Context, within time.Duration, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("waiting %v for %s: %w", within, what, err)
		}
	}
}
