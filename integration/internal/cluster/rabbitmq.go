// Package cluster starts servers that fail over: a RabbitMQ cluster, and a Redis Cluster.
//
// As those of package servers they are private children of this process. Their methods, and those of their nodes, are
// for one goroutine at a time.
package cluster

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servers"
)

// rabbitNodes is the fewest of which one may fail.
const rabbitNodes = 3

// pauseMinority is the setting that RabbitMQ advises for three nodes: one that sees neither of the others closes its
// connections until it does. From 4.3 on the setting has nothing to decide any more.
const pauseMinority = "cluster_partition_handling = pause_minority\n"

// RabbitMQ is a private cluster of three brokers. A proxy between any two of them can cut one off.
type RabbitMQ struct {
	Nodes []*servers.RabbitMQ // Kill, Pause, Stop and Start are for one of them

	links []*rabbitLink
}

// StartRabbitMQ starts three private brokers by opts, one after the other, and waits until each runs with the others.
// Partitions are handled by pause_minority unless opts.Config says otherwise. It leaves nothing behind when it fails,
// and ctx has no effect once it has returned.
func StartRabbitMQ(ctx context.Context, opts servers.RabbitMQOptions) (*RabbitMQ, error) {
	opts.Config, opts.Cookie = pauseMinority+opts.Config, rand.Text()
	c := &RabbitMQ{}
	if err := c.start(ctx, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a private RabbitMQ cluster: %w", err), c.Close())
	}
	return c, nil
}

func (c *RabbitMQ) start(ctx context.Context, opts servers.RabbitMQOptions) error {
	peers := "\ncluster_formation.peer_discovery_backend = classic_config\n"
	for i := range rabbitNodes {
		node, err := servers.NewRabbitMQ(opts)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, node)
		peers += fmt.Sprintf("cluster_formation.classic_config.nodes.%d = %s\n", i+1, node.Node())
		if err := node.StartMapper(ctx); err != nil {
			return err
		}
	}
	for _, from := range c.Nodes { // any two nodes have a proxy between them
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
	for i, node := range c.Nodes {
		if i > 0 { // the first one has none to join
			node.AddConfig(peers)
		}
		if err := node.Start(ctx); err != nil {
			return err
		}
	}
	// One that finds no other node starts alone.
	return c.Nodes[rabbitNodes-1].Ctl(ctx, "await_online_nodes", strconv.Itoa(rabbitNodes), "--timeout", "60")
}

// The ways to cut a node off. Refused closes the connections, so the other nodes notice it immediately. Blocked closes
// none, so they notice it after some seconds.
var (
	Refused = (*proxy.Proxy).Refuse
	Blocked = (*proxy.Proxy).Block
)

// Isolate cuts a node off from the others, or joins it to them again. It then comes back by itself, mostly within
// seconds.
func (c *RabbitMQ) Isolate(node *servers.RabbitMQ, how func(p *proxy.Proxy, on bool), on bool) {
	for _, link := range c.links {
		if link.from == node || link.to == node {
			how(link.proxy, on)
		}
	}
}

// Close kills the processes that still run and removes the directories.
func (c *RabbitMQ) Close() error {
	return errors.Join(servers.CloseAll(c.links), servers.CloseAll(c.Nodes))
}

// rabbitLink is a proxy between two nodes: in the port mapper of one, it stands for the other.
type rabbitLink struct {
	from, to *servers.RabbitMQ
	proxy    *proxy.Proxy
	entry    net.Conn // the mapper keeps the entry for as long as this is open
}

func newRabbitLink(ctx context.Context, from, to *servers.RabbitMQ) (*rabbitLink, error) {
	p, err := proxy.New(context.WithoutCancel(ctx), fmt.Sprintf("127.0.0.1:%d", to.DistPort()))
	if err != nil {
		return nil, err
	}
	entry, err := register(ctx, from.MapperPort(), strings.TrimSuffix(to.Node(), "@localhost"), p.Addr())
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("registering the link of %s to %s: %w", from.Node(), to.Node(), err)
	}
	return &rabbitLink{from: from, to: to, proxy: p, entry: entry}, nil
}

// Close ends it.
func (l *rabbitLink) Close() error {
	l.proxy.Close()
	return l.entry.Close()
}

// register enters a node in a port mapper, by Erlang's distribution protocol
// (ALIVE2_REQ). The entry goes when the connection does.
func register(ctx context.Context, epmdPort int, name, addr string) (_ net.Conn, err error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", epmdPort))
	if err != nil {
		return nil, err
	}
	var reply [2]byte
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second)) // an error comes again when the connection is used
	if _, err = conn.Write(aliveRequest(name, at.Port())); err == nil {
		_, err = io.ReadFull(conn, reply[:])
	}
	if err == nil && reply[1] != 0 {
		err = fmt.Errorf("the port mapper refuses with code %d", reply[1])
	}
	if err = errors.Join(err, conn.SetDeadline(time.Time{})); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func aliveRequest(name string, port uint16) []byte {
	const request, visible, tcp, highest, lowest = 'x', 'M', 0, 6, 5
	b := binary.BigEndian.AppendUint16([]byte{request}, port)
	b = append(b, visible, tcp, 0, highest, 0, lowest)
	b = binary.BigEndian.AppendUint16(b, uint16(len(name)))
	b = append(b, name...)
	b = append(b, 0, 0)
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}
