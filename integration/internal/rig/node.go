// Package rig opens the servers that a program of the laboratory uses, and kills, empties and examines them.
package rig

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/publisher"
)

// Node is one RabbitMQ: a private one, or one that commands kill and start, or one that is left alone.
type Node struct {
	URL                       string
	Private                   *servers.RabbitMQ
	KillCommand, StartCommand string
}

// Through returns its URL with another address in it.
func (n *Node) Through(addr string) string { return through(n.URL, addr) }

// through returns a URL with another address in it.
func through(rawURL, addr string) string { return strings.Replace(rawURL, hostOf(rawURL), addr, 1) }

// hostOf is the address in a URL of a server.
func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Host
}

// Kill ends it without warning.
func (n *Node) Kill(ctx context.Context) error {
	switch {
	case n.Private != nil:
		return n.Private.Kill()
	case n.KillCommand != "":
		return shell(ctx, n.KillCommand)
	}
	return errors.New("killing the RabbitMQ at -amqp: name -broker-kill and -broker-start")
}

// Start starts it again, and waits until it answers.
func (n *Node) Start(ctx context.Context) error {
	if n.Private != nil {
		return n.Private.Start(ctx)
	}
	if err := shell(ctx, n.StartCommand); err != nil {
		return err
	}
	return poll.Until(ctx, time.Minute, "the broker to answer", func() error {
		return n.OnConnection(func(*amqp.Connection) error { return nil })
	})
}

func shell(ctx context.Context, command string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}

// OnConnection bounds an exchange with a node that may be paused or recovering.
func (n *Node) OnConnection(do func(*amqp.Connection) error) error {
	conn, err := amqp.DialConfig(n.URL, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second), Heartbeat: 2 * time.Second})
	if err != nil {
		return err
	}
	bound := time.AfterFunc(15*time.Second, func() { _ = conn.CloseDeadline(time.Now()) })
	defer bound.Stop()
	defer func() { _ = conn.CloseDeadline(time.Now().Add(5 * time.Second)) }()
	return do(conn)
}

// OnChannel is OnConnection with a channel.
func (n *Node) OnChannel(do func(*amqp.Channel) error) error {
	return n.OnConnection(func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		return do(ch)
	})
}

// Queue returns how many messages a queue has ready, and how many consumers.
func (n *Node) Queue(name string) (q amqp.Queue, err error) {
	err = n.OnChannel(func(ch *amqp.Channel) error {
		q, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
	return q, err
}

// Delete deletes a queue with its dead-letter route.
func (n *Node) Delete(queue string) error {
	return n.OnChannel(func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		_, errDead := ch.QueueDelete(queue+".dlq", false, false, false)
		return errors.Join(err, errDead, ch.ExchangeDelete(queue+".dlx", false, false))
	})
}

// Publish publishes messages and waits for all confirms.
func (n *Node) Publish(ctx context.Context, all []publisher.Message) error {
	dial := publisher.Dialer(n.URL, amqp.Config{})
	pub, err := publisher.New(dial, nil)
	if err != nil {
		return err
	}
	return errors.Join(pub.PublishAll(ctx, all), pub.Close())
}

// Drain takes as many messages as a queue has ready. It consumes them: basic.get is refused on a quorum queue with a
// single active consumer. It acks each, so that one which arrives meanwhile stays in the queue.
func (n *Node) Drain(queue string, take func(*amqp.Delivery)) error {
	return n.OnChannel(func(ch *amqp.Channel) error {
		found, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil || found.Messages == 0 {
			return err
		}
		if err := ch.Qos(1, 0, false); err != nil {
			return err
		}
		deliveries, err := ch.Consume(queue, "drain", false, false, false, false, nil)
		if err != nil {
			return err
		}
		for empty := false; found.Messages > 0 && !empty; found.Messages-- {
			select {
			case d, ok := <-deliveries:
				if !ok {
					return fmt.Errorf("reading queue %s: the deliveries ended", queue)
				}
				if err := d.Ack(false); err != nil {
					return err
				}
				take(&d)
			case <-time.After(silence):
				empty = true
			}
		}
		return errors.Join(ch.Cancel("drain", false), ch.Close()) // else a quorum queue loses the last acks
	})
}

// silence is how long a queue says nothing when it is empty.
const silence = time.Second

// Restart stops and starts a private node.
func (n *Node) Restart(ctx context.Context) error {
	if n.Private == nil {
		return nil
	}
	return errors.Join(n.Private.Stop(ctx), n.Private.Start(ctx))
}
