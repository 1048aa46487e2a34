package rig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/internal/cluster"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/topology"
)

// Options say which RabbitMQ to use.
type Options struct {
	AMQP        string // its URL; if empty, a private one is started
	Kill, Start string // commands that kill and start the one at AMQP; if empty, it is not killed
	Cluster     bool   // a private one has three nodes
}

// Flags adds the flags for all but Cluster. Queues names those that a RabbitMQ at -amqp must not have.
func (o *Options) Flags(f *flag.FlagSet, queues string) {
	f.StringVar(&o.AMQP, "amqp", "", "`URL` of a RabbitMQ to use; if empty, a private one is started. It must not have "+
		queues)
	f.StringVar(&o.Kill, "broker-kill", "", "`command` that kills the RabbitMQ at -amqp; if empty, it is not killed")
	f.StringVar(&o.Start, "broker-start", "", "`command` that starts it again")
}

// Validate names flags that do not go together.
func (o Options) Validate() error {
	switch {
	case (o.Kill == "") != (o.Start == ""):
		return errors.New("-broker-kill and -broker-start go together")
	case o.Kill != "" && o.AMQP == "":
		return errors.New("-broker-kill is for a RabbitMQ named by -amqp; a private one is killed anyway")
	case o.AMQP != "" && o.Cluster:
		return errors.New("-cluster is for private nodes, not for a RabbitMQ named by -amqp")
	}
	return nil
}

// Broker is a RabbitMQ of one node or several.
type Broker struct {
	*Node   // the first
	Nodes   []*Node
	Cluster *cluster.RabbitMQ // nil: there is one node
	Version string            // as the broker names it

	declared string // a queue that is ours to remove
}

// OpenBroker starts a private RabbitMQ, or connects to the one that is named.
func OpenBroker(ctx context.Context, o Options) (_ *Broker, err error) {
	b := &Broker{}
	var private []*servers.RabbitMQ
	switch {
	case o.AMQP != "":
		b.Nodes = []*Node{{URL: o.AMQP, KillCommand: o.Kill, StartCommand: o.Start}}
	case o.Cluster:
		if b.Cluster, err = cluster.StartRabbitMQ(ctx, servers.RabbitMQOptions{}); err != nil {
			return nil, err
		}
		private = b.Cluster.Nodes
	default:
		r, err := servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{})
		if err != nil {
			return nil, err
		}
		private = append(private, r)
	}
	for _, r := range private {
		b.Nodes = append(b.Nodes, &Node{URL: r.URL, Private: r})
	}
	b.Node = b.Nodes[0]
	err = b.OnConnection(func(conn *amqp.Connection) error {
		b.Version, _ = conn.Properties["version"].(string)
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// NewProxy returns a proxy of all nodes. Its first connection leads to the node of this number.
func (b *Broker) NewProxy(ctx context.Context, first int) (*proxy.Proxy, error) {
	var hosts []string
	for i := range b.Nodes {
		hosts = append(hosts, hostOf(b.Nodes[(first+i)%len(b.Nodes)].URL))
	}
	return proxy.New(ctx, hosts...)
}

// settled is the time after which a RabbitMQ keeps the log of a new quorum queue through a kill.
const settled = 5 * time.Second

// CanKill reports whether its nodes can be killed and started.
func (b *Broker) CanKill() bool { return b.Private != nil || b.KillCommand != "" }

// Declare declares a queue, which must not exist, with its dead-letter route, until Close. Then it restarts private
// nodes, because one that is killed within moments of a quorum queue's declaration may forget its log. Where commands
// kill the RabbitMQ, it waits instead.
func (b *Broker) Declare(ctx context.Context, spec topology.Spec) error {
	if q, err := b.Queue(spec.Queue); err == nil {
		return fmt.Errorf("queue %s exists, with %d messages; delete it", spec.Queue, q.Messages)
	}
	if err := b.OnConnection(func(conn *amqp.Connection) error { return topology.Declare(ctx, conn, spec) }); err != nil {
		return err
	}
	b.declared = spec.Queue
	if b.Private == nil && b.KillCommand != "" {
		pause.For(ctx, settled)
	}
	for _, n := range b.Nodes {
		if err := n.Restart(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Depth is the number of messages that a queue has ready, by the first node that answers.
func (b *Broker) Depth(queue string) (int, error) {
	var last error
	for _, n := range b.Nodes {
		q, err := n.Queue(queue)
		if err == nil {
			return q.Messages, nil
		}
		last = err
	}
	return 0, last
}

// Recovered waits until each node serves the queues.
func (b *Broker) Recovered(ctx context.Context, queues ...string) error {
	return poll.Until(ctx, 2*time.Minute, "every node to serve the queues", func() error {
		for _, n := range b.Nodes {
			for _, queue := range queues {
				if _, err := n.Queue(queue); err != nil {
					return fmt.Errorf("%s: %w", hostOf(n.URL), err)
				}
			}
		}
		return nil
	})
}

// Close ends private nodes. On a RabbitMQ that was named it deletes the queues and exchanges of Declare. A nil Broker,
// as a nil Store or Dependency, has nothing to close.
func (b *Broker) Close() error {
	switch {
	case b == nil:
		return nil
	case b.Cluster != nil:
		return b.Cluster.Close()
	case b.Private != nil:
		return b.Private.Close()
	case b.declared == "":
		return nil
	}
	return b.Delete(b.declared)
}
