package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/servers"
)

const (
	clusterMasters = 3 // the fewest that agree on a failover
	clusterSlots   = 16384
)

// RedisOptions configure a private Redis Cluster.
type RedisOptions struct {
	// NodeTimeout is how long a node may be silent before the others take it
	// for dead. If zero, one second.
	NodeTimeout time.Duration
}

// Redis is a private Redis Cluster of three masters with a replica each.
type Redis struct {
	URL   string // redis+cluster://127.0.0.1:PORT?addr=..., naming every node
	Nodes []*servers.Redis
}

// StartRedis starts a private cluster and waits until every node reports it as
// whole. It leaves nothing behind when it fails, and ctx has no effect once it
// has returned.
func StartRedis(ctx context.Context, opts RedisOptions) (*Redis, error) {
	if opts.NodeTimeout == 0 {
		opts.NodeTimeout = time.Second
	}
	c := &Redis{}
	if err := c.start(ctx, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a private Redis Cluster: %w", err), c.Close())
	}
	return c, nil
}

func (c *Redis) start(ctx context.Context, opts RedisOptions) error {
	var addrs []string
	for range 2 * clusterMasters {
		node, err := servers.StartRedis(ctx, servers.RedisOptions{Cluster: true, Args: []string{
			"--repl-diskless-sync-delay", "0",
			"--cluster-node-timeout", strconv.FormatInt(opts.NodeTimeout.Milliseconds(), 10),
		}})
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, node)
		addrs = append(addrs, addr(node))
	}
	c.URL = "redis+cluster://" + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr=")
	if err := c.join(ctx); err != nil {
		return err
	}
	if err := c.assign(ctx); err != nil {
		return err
	}
	return c.Await(ctx)
}

// Await waits until every node runs and does its part. Then the next one may
// fail.
func (c *Redis) Await(ctx context.Context) error { return c.await(ctx, "whole", c.whole) }

// join makes the nodes meet, and waits until each knows all.
func (c *Redis) join(ctx context.Context) error {
	for i, node := range c.Nodes {
		err := do(node, func(rdb *redis.Client) error {
			if err := rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
				return err
			}
			host, port, _ := strings.Cut(addr(c.Nodes[0]), ":")
			return rdb.Do(ctx, "CLUSTER", "MEET", host, port, c.Nodes[0].BusPort).Err()
		})
		if err != nil {
			return err
		}
	}
	return c.await(ctx, "joined", func(ctx context.Context, node *servers.Redis) error {
		return says(ctx, node, "cluster_known_nodes:"+strconv.Itoa(len(c.Nodes)), clusterInfo)
	})
}

// assign gives the first nodes the slots, and each a replica among the others.
func (c *Redis) assign(ctx context.Context) error {
	for i, node := range c.Nodes[:clusterMasters] {
		var id string
		err := do(node, func(rdb *redis.Client) (err error) {
			id, err = rdb.Do(ctx, "CLUSTER", "MYID").Text()
			if err != nil {
				return err
			}
			return rdb.ClusterAddSlotsRange(ctx, i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1).Err()
		})
		if err != nil {
			return err
		}
		replica := c.Nodes[clusterMasters+i]
		if err := do(replica, func(rdb *redis.Client) error { return rdb.ClusterReplicate(ctx, id).Err() }); err != nil {
			return err
		}
	}
	return nil
}

// whole also asks for the replicas that a failover needs. They must be known to their masters and have their data.
func (c *Redis) whole(ctx context.Context, node *servers.Redis) error {
	if err := says(ctx, node, "cluster_state:ok", clusterInfo); err != nil {
		return err
	}
	if err := says(ctx, node, "role:slave", replicationInfo); err != nil {
		return says(ctx, node, "connected_slaves:1", replicationInfo)
	}
	return says(ctx, node, "master_link_status:up", replicationInfo)
}

// await polls until cond is nil on every node.
func (c *Redis) await(ctx context.Context, what string, cond func(context.Context, *servers.Redis) error) error {
	for _, node := range c.Nodes {
		if err := node.Await(ctx, func(ctx context.Context) error { return cond(ctx, node) }); err != nil {
			return fmt.Errorf("%s is not %s: %w", addr(node), what, err)
		}
	}
	return nil
}

// Master returns the node that serves key now, as the other nodes see it.
func (c *Redis) Master(ctx context.Context, key string) (*servers.Redis, error) {
	for _, node := range c.Nodes {
		if !node.Running() {
			continue
		}
		var at string
		err := do(node, func(rdb *redis.Client) error {
			slot, err := rdb.ClusterKeySlot(ctx, key).Result()
			if err != nil {
				return err
			}
			ranges, err := rdb.ClusterSlots(ctx).Result() //nolint:staticcheck // its successor came with Redis 7
			for _, r := range ranges {
				if int64(r.Start) <= slot && slot <= int64(r.End) && len(r.Nodes) > 0 {
					at = r.Nodes[0].Addr
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, master := range c.Nodes {
			if addr(master) == at {
				return master, nil
			}
		}
	}
	return nil, fmt.Errorf("no master serves %q", key)
}

// Close kills the processes that still run and removes the directories.
func (c *Redis) Close() error { return closeAll(c.Nodes) }

func addr(node *servers.Redis) string {
	u, err := url.Parse(node.URL)
	if err != nil {
		return node.URL
	}
	return u.Host
}

// do runs f on a client of its own.
func do(node *servers.Redis, f func(*redis.Client) error) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr(node), MaxRetries: -1, ContextTimeoutEnabled: true})
	if err := errors.Join(f(rdb), rdb.Close()); err != nil {
		return fmt.Errorf("%s: %w", addr(node), err)
	}
	return nil
}

func clusterInfo(ctx context.Context, rdb *redis.Client) (string, error) {
	return rdb.ClusterInfo(ctx).Result()
}

func replicationInfo(ctx context.Context, rdb *redis.Client) (string, error) {
	return rdb.Info(ctx, "replication").Result()
}

// says fails unless the node's reply has this line.
func says(ctx context.Context, node *servers.Redis, line string, ask func(context.Context, *redis.Client) (string,
	error)) error {
	return do(node, func(rdb *redis.Client) error {
		text, err := ask(ctx, rdb)
		if err == nil && !strings.Contains("\n"+text, "\n"+line+"\r\n") {
			err = fmt.Errorf("no %s in %q", line, text)
		}
		return err
	})
}
