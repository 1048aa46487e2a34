package integration

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
)

// rabbitCluster starts three brokers that form a cluster.
func rabbitCluster(t *testing.T) (nodes []*servers.RabbitMQ) {
	t.Helper()
	opts := servers.RabbitMQOptions{Management: true}
	for range 3 { // the fewest of which one may fail
		nodes = append(nodes, privateBroker(t, opts))
		opts.Join = nodes[0]
	}
	need(t, nodes[0].Ctl(t.Context(), "await_online_nodes", "3", "--timeout", "60"))
	return nodes
}

// redisCluster is a private Redis Cluster of three masters with a replica each.
type redisCluster struct {
	URL   string // names every node
	Nodes []*servers.Redis
}

// startRedisCluster starts a cluster in which a node that is silent for longer than the timeout is dead to the others.
func startRedisCluster(t *testing.T, timeout time.Duration) *redisCluster {
	t.Helper()
	c, addrs := &redisCluster{}, []string{}
	for range 6 {
		node := privateStore(t, servers.RedisOptions{Cluster: true, Args: []string{"--repl-diskless-sync-delay", "0",
			"--cluster-node-timeout", fmt.Sprint(timeout.Milliseconds())}})
		c.Nodes, addrs = append(c.Nodes, node), append(addrs, node.Addr)
	}
	c.URL = "redis+cluster://" + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr=")
	bin, err := servers.FindRedis()
	need(t, err)
	// redis-cli makes the nodes meet, gives the masters the slots and each a replica, and waits until they agree.
	args := slices.Concat([]string{"--cluster", "create"}, addrs, []string{"--cluster-replicas", "1", "--cluster-yes"})
	create := exec.CommandContext(t.Context(), strings.TrimSuffix(bin, "server")+"cli", args...)
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", create, err, out)
	}
	for _, node := range c.Nodes {
		proctest.Within(t, 2*time.Minute, func() error { return whole(t, node) })
	}
	return c
}

// whole returns an error unless the node sees a whole cluster and is connected with its replica or its master. So the
// cluster can lose a master.
func whole(t *testing.T, node *servers.Redis) error {
	return node.Do(func(rdb *redis.Client) error {
		state, role := rdb.ClusterInfo(t.Context()).Val(), rdb.Info(t.Context(), "replication").Val()
		if strings.Contains(state, "cluster_state:ok") && (strings.Contains(role, "connected_slaves:1") ||
			strings.Contains(role, "role:slave") && strings.Contains(role, "master_link_status:up")) {
			return nil
		}
		return fmt.Errorf("%q, %q", state, role)
	})
}

// master returns the node that serves a key.
func (c *redisCluster) master(t *testing.T, key string) *servers.Redis {
	t.Helper()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Nodes[0].Addr}})
	defer rdb.Close()
	master, err := rdb.MasterForKey(t.Context(), key)
	need(t, err)
	return c.Nodes[slices.IndexFunc(c.Nodes, func(n *servers.Redis) bool { return n.Addr == master.Options().Addr })]
}
