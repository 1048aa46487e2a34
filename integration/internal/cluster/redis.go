package cluster

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/servers"
)

const (
	clusterMasters = 3               // the fewest that agree on a failover
	patience       = 2 * time.Minute // with servers that are to find each other
)

// Redis is a private Redis Cluster of three masters with a replica each.
type Redis struct {
	URL   string // redis+cluster://127.0.0.1:PORT?addr=..., naming every node
	Nodes []*servers.Redis
}

// StartRedis starts a private cluster and waits until every node reports it as whole. A node that is silent for longer
// than the timeout is dead to the others. StartRedis leaves nothing behind when it fails, and ctx has no effect once it
// has returned.
func StartRedis(ctx context.Context, nodeTimeout time.Duration) (*Redis, error) {
	c := &Redis{}
	if err := c.start(ctx, nodeTimeout); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a private Redis Cluster: %w", err), c.Close())
	}
	return c, nil
}

func (c *Redis) start(ctx context.Context, nodeTimeout time.Duration) error {
	var addrs []string
	for range 2 * clusterMasters {
		node, err := servers.StartRedis(ctx, servers.RedisOptions{Cluster: true, Args: []string{
			"--repl-diskless-sync-delay", "0",
			"--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10),
		}})
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, node)
		addrs = append(addrs, node.Addr)
	}
	c.URL = "redis+cluster://" + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr=")
	bin, err := servers.FindRedis()
	if err != nil {
		return err
	}
	// redis-cli makes the nodes meet, gives the masters the slots and each a replica, and waits until they agree.
	args := append(append([]string{"--cluster", "create"}, addrs...), "--cluster-replicas", "1", "--cluster-yes")
	create := exec.CommandContext(ctx, strings.TrimSuffix(bin, "server")+"cli", args...)
	if out, err := create.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", create, err, out)
	}
	return c.Await(ctx)
}

// Await waits until every node runs and does its part. Then the next one may fail.
func (c *Redis) Await(ctx context.Context) error {
	for _, node := range c.Nodes {
		if err := poll.Until(ctx, patience, "a whole cluster", func() error { return whole(ctx, node) }); err != nil {
			return err
		}
	}
	return nil
}

// whole also asks for the replicas that a failover needs. They must be known to their masters and have their data.
func whole(ctx context.Context, node *servers.Redis) error {
	if err := says(ctx, node, "cluster_state:ok", "CLUSTER", "INFO"); err != nil {
		return err
	}
	if err := says(ctx, node, "role:slave", "INFO", "replication"); err != nil {
		return says(ctx, node, "connected_slaves:1", "INFO", "replication")
	}
	return says(ctx, node, "master_link_status:up", "INFO", "replication")
}

// Master returns the node that serves key now, as the other nodes see it.
func (c *Redis) Master(ctx context.Context, key string) (*servers.Redis, error) {
	var addrs []string
	for _, node := range c.Nodes {
		if node.Running() {
			addrs = append(addrs, node.Addr)
		}
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer rdb.Close()
	master, err := rdb.MasterForKey(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("the master of %q: %w", key, err)
	}
	i := slices.IndexFunc(c.Nodes, func(node *servers.Redis) bool { return node.Addr == master.Options().Addr })
	if i < 0 {
		return nil, fmt.Errorf("no node is the master of %q, at %s", key, master.Options().Addr)
	}
	return c.Nodes[i], nil
}

// Close kills the processes that still run and removes the directories.
func (c *Redis) Close() error { return servers.CloseAll(c.Nodes) }

// says fails unless the node's reply to a command has this line.
func says(ctx context.Context, node *servers.Redis, line string, command ...any) error {
	return node.Do(func(rdb *redis.Client) error {
		text, err := rdb.Do(ctx, command...).Text()
		if err == nil && !strings.Contains("\n"+text, "\n"+line+"\r\n") {
			err = fmt.Errorf("no %s in %q", line, text)
		}
		return err
	})
}
