package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/internal/cluster"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/topology"
)

const (
	queue       = "soak"
	deadLetters = queue + ".dlq"
)

// broker is the RabbitMQ of a soak, of one node or several.
type broker struct {
	nodes   []*node
	cluster *cluster.RabbitMQ // nil: there is one node

	declared bool // so the queues are ours to remove
}

func openBroker(ctx context.Context, cfg config) (*broker, error) {
	opts := servers.RabbitMQOptions{Sbin: cfg.sbin}
	switch {
	case cfg.amqp != "":
		n, err := newNode(cfg.amqp)
		if err != nil {
			return nil, err
		}
		n.kill, n.start = cfg.brokerKill, cfg.brokerStart
		return &broker{nodes: []*node{n}}, nil
	case cfg.cluster:
		cluster, err := cluster.StartRabbitMQ(ctx, opts)
		if err != nil {
			return nil, err
		}
		b := &broker{cluster: cluster}
		return b, b.own(cluster.Nodes...)
	}
	r, err := servers.StartRabbitMQ(ctx, opts)
	if err != nil {
		return nil, err
	}
	b := &broker{}
	return b, b.own(r)
}

func (b *broker) own(nodes ...*servers.RabbitMQ) error {
	for _, r := range nodes {
		n, err := newNode(r.URL)
		if err != nil {
			return err
		}
		n.private = r
		b.nodes = append(b.nodes, n)
	}
	return nil
}

func (b *broker) private() bool { return b.nodes[0].private != nil }

func (b *broker) canKill() bool { return b.private() || b.nodes[0].kill != "" }

// declare makes the queue and its dead-letter way. A node that is killed within moments of a quorum queue's declaration may
// forget its log, so private ones are stopped and started once.
func (b *broker) declare(ctx context.Context, cfg config) error {
	err := b.nodes[0].onConnection(func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		if q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil); err == nil {
			return fmt.Errorf("the queue %s exists, with %d messages: delete it", queue, q.Messages)
		}
		b.declared = true
		return topology.Declare(ctx, conn, topology.Spec{Queue: queue, Type: topology.Type(cfg.kind), SingleActiveConsumer: cfg.ordered})
	})
	if err != nil || !b.private() {
		return err
	}
	for _, n := range b.nodes {
		if err := errors.Join(n.private.Stop(ctx), n.private.Start(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes what declare made, on a broker that is not ours.
func (b *broker) remove() error {
	if len(b.nodes) == 0 || b.private() || !b.declared {
		return nil
	}
	return b.nodes[0].onChannel(func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		_, err2 := ch.QueueDelete(deadLetters, false, false, false)
		return errors.Join(err, err2, ch.ExchangeDelete(queue+".dlx", false, false))
	})
}

// depth is the number of messages that a queue has ready, by the first node that says so.
func (b *broker) depth(name string) (ready int, err error) {
	for _, n := range b.nodes {
		if ready, err = n.depth(name); err == nil {
			return ready, nil
		}
	}
	return 0, err
}

// recovered waits until each node serves both queues.
func (b *broker) recovered(ctx context.Context) error {
	return poll.Until(ctx, 2*time.Minute, "every node to serve the queues", func() error {
		for _, n := range b.nodes {
			for _, name := range []string{queue, deadLetters} {
				if _, err := n.depth(name); err != nil {
					return fmt.Errorf("%s: %w", n.host, err)
				}
			}
		}
		return nil
	})
}

func (b *broker) close() error {
	switch {
	case b.cluster != nil:
		return b.cluster.Close()
	case len(b.nodes) > 0 && b.private():
		return b.nodes[0].private.Close()
	}
	return nil
}
