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

	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/servers"
)

// node is one RabbitMQ: a private one, or one that commands kill and start, or one that is left alone.
type node struct {
	url         string
	host        string
	private     *servers.RabbitMQ
	kill, start string
}

func newNode(rawURL string) (*node, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("-amqp is not a URL")
	}
	return &node{url: rawURL, host: u.Host}, nil
}

// at returns the node's URL with another address in it.
func (n *node) at(addr string) string {
	u, err := url.Parse(n.url)
	if err != nil {
		panic(err) // newNode has parsed it
	}
	u.Host = addr
	return u.String()
}

// killed ends the node without warning.
func (n *node) killed(ctx context.Context) error {
	if n.private != nil {
		return n.private.Kill()
	}
	return shell(ctx, n.kill)
}

// restarted starts it, and waits until it answers.
func (n *node) restarted(ctx context.Context) error {
	if n.private != nil {
		return n.private.Start(ctx)
	}
	if err := shell(ctx, n.start); err != nil {
		return err
	}
	return poll.Until(ctx, time.Minute, "an answer of the broker", func() error {
		return n.onConnection(func(*amqp.Connection) error { return nil })
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

// onConnection bounds an exchange with a node that may be paused or recovering.
func (n *node) onConnection(do func(*amqp.Connection) error) error {
	conn, err := amqp.DialConfig(n.url, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second), Heartbeat: heartbeat})
	if err != nil {
		return err
	}
	bound := time.AfterFunc(15*time.Second, func() { _ = conn.CloseDeadline(time.Now()) })
	defer bound.Stop()
	defer func() { _ = conn.CloseDeadline(time.Now().Add(5 * time.Second)) }()
	return do(conn)
}

func (n *node) onChannel(do func(*amqp.Channel) error) error {
	return n.onConnection(func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		return do(ch)
	})
}

// depth is the number of messages that a queue has ready.
func (n *node) depth(name string) (ready int, err error) {
	err = n.onChannel(func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		ready = q.Messages
		return err
	})
	return ready, err
}
