package main

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/integration/internal/cluster"
	"github.com/strikesmq/strikes/integration/internal/node"
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
	nodes   []*node.Node
	cluster *cluster.RabbitMQ // nil: there is one node

	declared bool // so the queues are ours to remove
}

func openBroker(ctx context.Context, cfg config) (*broker, error) {
	opts := servers.RabbitMQOptions{Sbin: cfg.sbin}
	switch {
	case cfg.amqp != "":
		return &broker{nodes: []*node.Node{{URL: cfg.amqp, KillCommand: cfg.brokerKill, StartCommand: cfg.brokerStart}}}, nil
	case cfg.cluster:
		cluster, err := cluster.StartRabbitMQ(ctx, opts)
		if err != nil {
			return nil, err
		}
		b := &broker{cluster: cluster}
		b.own(cluster.Nodes...)
		return b, nil
	}
	r, err := servers.StartRabbitMQ(ctx, opts)
	if err != nil {
		return nil, err
	}
	b := &broker{}
	b.own(r)
	return b, nil
}

func (b *broker) own(nodes ...*servers.RabbitMQ) {
	for _, r := range nodes {
		b.nodes = append(b.nodes, &node.Node{URL: r.URL, Private: r})
	}
}

func (b *broker) private() bool { return b.nodes[0].Private != nil }

func (b *broker) canKill() bool { return b.private() || b.nodes[0].KillCommand != "" }

// declare declares the queue and its dead-letter route.
func (b *broker) declare(ctx context.Context, cfg config) error {
	_, err := b.nodes[0].Declare(ctx, topology.Spec{Queue: queue, Type: topology.Type(cfg.kind),
		SingleActiveConsumer: cfg.ordered})
	if err != nil {
		return err
	}
	b.declared = true
	for _, n := range b.nodes {
		if err := n.Restart(ctx); err != nil {
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
	return b.nodes[0].Remove(queue)
}

// depth is the number of messages that a queue has ready, by the first node that answers.
func (b *broker) depth(name string) (int, error) {
	var last error
	for _, n := range b.nodes {
		q, err := n.Queue(name)
		if err == nil {
			return q.Messages, nil
		}
		last = err
	}
	return 0, last
}

// recovered waits until each node serves both queues.
func (b *broker) recovered(ctx context.Context) error {
	return poll.Until(ctx, 2*time.Minute, "every node to serve the queues", func() error {
		for _, n := range b.nodes {
			for _, name := range []string{queue, deadLetters} {
				if _, err := n.Queue(name); err != nil {
					return fmt.Errorf("%s: %w", n.Host(), err)
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
		return b.nodes[0].Private.Close()
	}
	return nil
}
