package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
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

func TestStoreSentinel(t *testing.T) {
	t.Parallel()
	url, master := watched(t)
	c := dialStore(t, servertest.Patient(t, url))
	takeSteps(t, c)
	_, port, _ := strings.Cut(master.Addr, ":")
	warnings, err := c.Check(t.Context())
	if text := strings.Join(warnings, ""); err != nil || !strings.HasPrefix(text, "the store behind Sentinel keeps") ||
		!strings.Contains(text, "redis-cli -h MASTER -p "+port+" CONFIG SET") {
		t.Errorf("%q, %v", warnings, err)
	}
	survives(t, dialStore(t, url), master)
}

// TestStoreOfAnotherKind: a URL with the scheme of another kind of server, or with another name of the master, is
// refused at the start of a consumer. The error says what to write.
func TestStoreOfAnotherKind(t *testing.T) {
	t.Parallel()
	one := privateStore(t, servers.RedisOptions{}).Addr
	sentinel := privateStore(t, servers.RedisOptions{Config: "sentinel monitor strikes 127.0.0.1 1 1\n",
		Args: []string{"--sentinel"}}).Addr
	for url, want := range map[string]string{
		"redis://" + sentinel:                               "rediss+sentinel, and the parameter master_name",
		"redis+sentinel://" + one + "?master_name=strikes":  "no Sentinel: give the URL the scheme redis or rediss",
		"redis+sentinel://" + sentinel + "?master_name=one": "no master of this name: correct the parameter master_name",
		"redis+cluster://" + one:                            "no Cluster: give the URL the scheme redis or rediss",
		"redis://" + one + "/99":                            "a Cluster has only 0",
	} {
		refusesKind(t, url, want)
	}
}

func refusesKind(t *testing.T, url, want string) {
	t.Helper()
	c := dialStore(t, servertest.Patient(t, url))
	_, err := c.Check(t.Context())
	_, examined := c.Admin().Examine(t.Context())
	for _, err := range []error{err, examined} {
		var failed *counter.StoreError
		if !errors.As(err, &failed) || !strings.HasSuffix(err.Error(), want) ||
			failed.Fault != counter.FaultOtherKind && failed.Fault != counter.FaultNotSetUp {
			t.Errorf("%s: %v, want %q at its end", url, err, want)
		}
	}
}

// watched starts a master and a replica that has its data, and three sentinels that know each other. The URL names
// every sentinel.
func watched(t *testing.T) (url string, master *servers.Redis) {
	t.Helper()
	master = privateStore(t, servers.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	host, port, _ := strings.Cut(master.Addr, ":")
	replica := client(t, privateStore(t, servers.RedisOptions{Args: []string{"--replicaof", host, port}}))
	eventually(t, "the replica's data", func() bool {
		return replica.InfoMap(t.Context(), "replication").Item("Replication", "master_link_status") == "up"
	})
	conf := "sentinel monitor strikes " + host + " " + port + " 2\n" +
		"sentinel down-after-milliseconds strikes 500\nsentinel failover-timeout strikes 3000\n"
	var sentinels []*redis.Client
	for range 3 {
		sentinel := privateStore(t, servers.RedisOptions{Config: conf, Args: []string{"--sentinel"}})
		sentinels = append(sentinels, client(t, sentinel))
		url += "&addr=" + sentinel.Addr
	}
	for _, sentinel := range sentinels {
		eventually(t, "a sentinel that knows the others and the replica", func() bool {
			known := redis.NewMapStringStringCmd(t.Context(), "SENTINEL", "MASTER", "strikes")
			need(t, sentinel.Process(t.Context(), known))
			return known.Val()["num-slaves"] == "1" && known.Val()["num-other-sentinels"] == "2" &&
				known.Val()["flags"] == "master"
		})
	}
	return "redis+sentinel://" + sentinels[0].Options().Addr + "/0?master_name=strikes" + url, master
}

// TestSlotMovesWhileMessagesFail: a Redis Cluster moves the slot of a queue to another master, key by key. Meanwhile it
// refuses the scripts whose keys are on both masters (TRYAGAIN). Their steps are repeated, and no count is lost.
func TestSlotMovesWhileMessagesFail(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	cluster := startRedisCluster(t, 5*time.Second)
	queue := declared(t, topology.Quorum)
	const messages = 100
	publish(t, queue, "m", messages)
	var ran, held atomic.Int64
	stop := runConsumer(t, consumer.Consumer{
		Queue: queue, Counter: dialStore(t, servertest.Patient(t, cluster.URL)), Concurrency: 4, Prefetch: 40,
		Backoff: func(int) time.Duration { return time.Second },
		Observer: observer(func(e consumer.Event) {
			if e.Outcome == consumer.OutcomeHold {
				held.Add(1)
			}
		}),
		Handler: func(context.Context, amqp.Delivery) error { ran.Add(1); return errors.New("boom") },
	}, dialer(t))
	eventually(t, "a counted failure", func() bool { return ran.Load() > 40 })
	moveSlot(t, cluster, queue, func(from, to *servers.Redis, slot int64) {
		host, port, err := net.SplitHostPort(to.Addr)
		need(t, err)
		moved := client(t, from)
		for n := 1; ; n = 100 { // one key, and all others after a step was refused
			keys := moved.ClusterGetKeysInSlot(t.Context(), int(slot), n).Val()
			if len(keys) == 0 {
				break
			}
			command := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
			for _, key := range keys {
				command = append(command, key)
			}
			do(t, moved, command...)
			eventually(t, "a step that waits", func() bool { return held.Load() > 0 })
		}
		id := client(t, to).Do(t.Context(), "CLUSTER", "MYID").Val()
		for _, node := range []*servers.Redis{to, from} {
			ask(t, client(t, node), fmt.Sprintf("CLUSTER SETSLOT %d NODE %s", slot, id))
		}
	})
	eventually(t, "the dead letters", func() bool { return queueDepth(t, queue+".dlq") == messages })
	stop()
	if got := ran.Load(); got != 4*messages {
		t.Errorf("%d attempts at %d messages, want 4 each", got, messages)
	}
}
