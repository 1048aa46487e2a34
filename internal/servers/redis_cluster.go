package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterMasters = 3 // the fewest that agree on a failover
	clusterSlots   = 16384
)

// RedisClusterOptions says what private cluster to start.
type RedisClusterOptions struct {
	// NodeTimeout is how long a node may be silent before the others take it
	// for dead. If zero, one second.
	NodeTimeout time.Duration
}

// RedisCluster is a private Redis Cluster of three masters with a replica each.
// Its methods are for one goroutine at a time.
type RedisCluster struct {
	URL   string // redis+cluster://127.0.0.1:PORT?addr=..., naming every node
	Nodes []*Redis
}

// StartRedisCluster starts a private cluster and waits until every node says
// that it is whole. Like StartRedis, it leaves nothing behind when it fails,
// and ctx has no say once it has returned.
func StartRedisCluster(ctx context.Context, opts RedisClusterOptions) (*RedisCluster, error) {
	if opts.NodeTimeout == 0 {
		opts.NodeTimeout = time.Second
	}
	c := &RedisCluster{}
	if err := c.start(ctx, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("servers: private Redis Cluster: %w", err), c.Close())
	}
	return c, nil
}

func (c *RedisCluster) start(ctx context.Context, opts RedisClusterOptions) error {
	var addrs []string
	for range 2 * clusterMasters {
		node, err := newRedis(RedisOptions{Args: []string{
			"--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0",
			"--cluster-node-timeout", strconv.FormatInt(opts.NodeTimeout.Milliseconds(), 10),
		}})
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, node)
		addrs = append(addrs, node.addr())
		node.args = append(node.args, "--cluster-port", strconv.Itoa(node.bus()))
		if err := node.Start(ctx); err != nil {
			return err
		}
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

// Await waits until every node runs and has its part, as it must before the
// next of them may fail.
func (c *RedisCluster) Await(ctx context.Context) error { return c.await(ctx, "whole", c.whole) }

// join makes the nodes meet, and waits until each knows all.
func (c *RedisCluster) join(ctx context.Context) error {
	for i, node := range c.Nodes {
		err := node.do(func(rdb *redis.Client) error {
			if err := rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
				return err
			}
			host, port, _ := strings.Cut(c.Nodes[0].addr(), ":")
			return rdb.Do(ctx, "CLUSTER", "MEET", host, port, c.Nodes[0].bus()).Err()
		})
		if err != nil {
			return err
		}
	}
	return c.await(ctx, "joined", func(ctx context.Context, node *Redis) error {
		return node.says(ctx, "cluster_known_nodes:"+strconv.Itoa(len(c.Nodes)), clusterInfo)
	})
}

// assign gives the first nodes the slots, and each a replica among the others.
func (c *RedisCluster) assign(ctx context.Context) error {
	for i, node := range c.Nodes[:clusterMasters] {
		var id string
		err := node.do(func(rdb *redis.Client) (err error) {
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
		if err := replica.do(func(rdb *redis.Client) error { return rdb.ClusterReplicate(ctx, id).Err() }); err != nil {
			return err
		}
	}
	return nil
}

// whole also asks for what a failover needs: replicas that are known to their
// masters and have their data.
func (c *RedisCluster) whole(ctx context.Context, node *Redis) error {
	if err := node.says(ctx, "cluster_state:ok", clusterInfo); err != nil {
		return err
	}
	if err := node.says(ctx, "role:slave", replicationInfo); err != nil {
		return node.says(ctx, "connected_slaves:1", replicationInfo)
	}
	return node.says(ctx, "master_link_status:up", replicationInfo)
}

// await polls until cond is nil on every node.
func (c *RedisCluster) await(ctx context.Context, what string, cond func(context.Context, *Redis) error) error {
	for _, node := range c.Nodes {
		if err := waitReady(ctx, node.server, func(ctx context.Context) error { return cond(ctx, node) }); err != nil {
			return fmt.Errorf("%s is not %s: %w", node.addr(), what, err)
		}
	}
	return nil
}

// Master returns the node that serves key now, as the other nodes see it.
func (c *RedisCluster) Master(ctx context.Context, key string) (*Redis, error) {
	for _, node := range c.Nodes {
		if !node.server.running() {
			continue
		}
		var at string
		err := node.do(func(rdb *redis.Client) error {
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
			return nil, fmt.Errorf("servers: %w", err)
		}
		for _, master := range c.Nodes {
			if master.addr() == at {
				return master, nil
			}
		}
	}
	return nil, fmt.Errorf("servers: nobody serves %q", key)
}

// Close kills what still runs and removes the directories.
func (c *RedisCluster) Close() error { return closeAll(c.Nodes) }

func closeAll[S io.Closer](nodes []S) error {
	var errs []error
	for _, node := range nodes {
		errs = append(errs, node.Close())
	}
	return errors.Join(errs...)
}

func (r *Redis) addr() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return r.URL
	}
	return u.Host
}

// bus is the port at which the other nodes of a cluster reach this one.
func (r *Redis) bus() int { return r.dir.ports[1] }

// do runs f on a client of its own.
func (r *Redis) do(f func(*redis.Client) error) error {
	rdb := redis.NewClient(&redis.Options{Addr: r.addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	if err := errors.Join(f(rdb), rdb.Close()); err != nil {
		return fmt.Errorf("%s: %w", r.addr(), err)
	}
	return nil
}

func clusterInfo(ctx context.Context, rdb *redis.Client) (string, error) {
	return rdb.ClusterInfo(ctx).Result()
}

func replicationInfo(ctx context.Context, rdb *redis.Client) (string, error) {
	return rdb.Info(ctx, "replication").Result()
}

// says fails unless what the node answers has this line.
func (r *Redis) says(ctx context.Context, line string, ask func(context.Context, *redis.Client) (string, error)) error {
	return r.do(func(rdb *redis.Client) error {
		text, err := ask(ctx, rdb)
		if err == nil && !strings.Contains("\n"+text, "\n"+line+"\r\n") {
			err = fmt.Errorf("no %s in %q", line, text)
		}
		return err
	})
}
