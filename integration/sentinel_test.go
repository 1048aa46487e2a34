package integration

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

func TestStoreSentinel(t *testing.T) {
	t.Parallel()
	url, master := watched(t)
	takeSteps(t, dialStore(t, servertest.Patient(t, url)))
	survives(t, dialStore(t, url), master)
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
