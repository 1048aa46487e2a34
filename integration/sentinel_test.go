package integration

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

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
