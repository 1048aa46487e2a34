package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/strikesmq/strikes/internal/proxy"
)

// rabbitNodes is the fewest of which one may fail.
const rabbitNodes = 3

// pauseMinority is what RabbitMQ advises for three nodes: one that sees neither
// of the others closes its connections until it does. From 4.3 on the setting
// has nothing to decide any more.
const pauseMinority = "cluster_partition_handling = pause_minority\n"

// RabbitMQCluster is a private cluster of three brokers. Between any two of them
// stands a proxy, so that one can be cut off. Its methods, and those of its
// nodes, are for one goroutine at a time.
type RabbitMQCluster struct {
	Nodes []*RabbitMQ // Kill, Pause, Stop and Start are for one of them

	links []*rabbitLink
}

// StartRabbitMQCluster starts three private brokers by opts, one after the
// other, and waits until each runs with the others. Partitions are handled by
// pause_minority unless opts.Config says otherwise. Like StartRabbitMQ, it
// leaves nothing behind when it fails, and ctx has no say once it has returned.
func StartRabbitMQCluster(ctx context.Context, opts RabbitMQOptions) (*RabbitMQCluster, error) {
	opts.Config = pauseMinority + opts.Config
	c := &RabbitMQCluster{}
	if err := c.start(ctx, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("servers: private RabbitMQ cluster: %w", err), c.Close())
	}
	return c, nil
}

func (c *RabbitMQCluster) start(ctx context.Context, opts RabbitMQOptions) error {
	for range rabbitNodes {
		node, err := newRabbitMQ(opts)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, node)
		node.conf.cookie = c.Nodes[0].conf.cookie
		if err := node.startEpmd(ctx); err != nil {
			return err
		}
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	var names []string
	for _, node := range c.Nodes {
		names = append(names, node.conf.node())
	}
	for i, node := range c.Nodes {
		if i > 0 {
			node.conf.peers = names
		}
		if err := node.first(ctx); err != nil {
			return err
		}
	}
	return c.whole(ctx)
}

// connect introduces each node to the others.
func (c *RabbitMQCluster) connect(ctx context.Context) error {
	for _, from := range c.Nodes {
		for _, to := range c.Nodes {
			if from == to {
				continue
			}
			link, err := newRabbitLink(ctx, from, to)
			if err != nil {
				return err
			}
			c.links = append(c.links, link)
		}
	}
	return nil
}

// whole fails unless the last node runs with all others. One that finds nobody
// to join starts alone.
func (c *RabbitMQCluster) whole(ctx context.Context) error {
	out, err := c.Nodes[len(c.Nodes)-1].Ctl(ctx, "cluster_status", "--formatter", "json")
	if err != nil {
		return err
	}
	var status struct {
		Running []string `json:"running_nodes"`
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		return fmt.Errorf("the cluster's status is not understood: %w", err)
	}
	if len(status.Running) != len(c.Nodes) {
		return fmt.Errorf("only %q found each other", status.Running)
	}
	return nil
}

// Isolate cuts a node off from the others, which notice at once.
func (c *RabbitMQCluster) Isolate(node *RabbitMQ) {
	c.each(node, func(p *proxy.Proxy) { p.Refuse(true) })
}

// Silence cuts a node off from the others, and nobody is told: they notice when
// they have not heard of each other for some seconds.
func (c *RabbitMQCluster) Silence(node *RabbitMQ) {
	c.each(node, func(p *proxy.Proxy) { p.Block(true) })
}

// Heal ends Isolate and Silence. The node comes back by itself, within seconds.
func (c *RabbitMQCluster) Heal() {
	for _, link := range c.links {
		link.proxy.Refuse(false)
		link.proxy.Block(false)
	}
}

func (c *RabbitMQCluster) each(node *RabbitMQ, do func(*proxy.Proxy)) {
	for _, link := range c.links {
		if slices.Contains([]*RabbitMQ{link.from, link.to}, node) {
			do(link.proxy)
		}
	}
}

// Close kills what still runs and removes the directories.
func (c *RabbitMQCluster) Close() error {
	var errs []error
	for _, link := range c.links {
		errs = append(errs, link.close())
	}
	return errors.Join(append(errs, closeAll(c.Nodes))...)
}
