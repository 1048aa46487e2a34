package integration

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

// saving are the arguments of a store that keeps its data on disk.
var saving = []string{"--appendonly", "yes"}

// ask sends one command line.
func ask(t *testing.T, rdb *redis.Client, line string) {
	t.Helper()
	var words []any
	for word := range strings.FieldsSeq(line) {
		words = append(words, word)
	}
	do(t, rdb, words...)
}

// examineStore returns the codes of the findings; severe ones have a mark.
func examineStore(t *testing.T, rawURL string) (codes string, findings []counter.Finding) {
	t.Helper()
	counts := counterOn(t, servertest.Patient(t, rawURL), "")
	findings, err := counts.Admin().Examine(t.Context())
	need(t, err)
	var all []string
	for _, f := range findings {
		if f.Severe {
			f.Code += "!"
		}
		all = append(all, f.Code)
	}
	slices.Sort(all)
	return strings.Join(all, " "), findings
}

// TestDoctorExaminesTheStore changes one store from sick to healthy and back.
func TestDoctorExaminesTheStore(t *testing.T) {
	t.Parallel()
	store := privateStore(t, servers.RedisOptions{Args: saving})
	admin := client(t, store)
	for _, tt := range []struct{ name, do, undo, want string }{
		{"sound", "PING", "PING", ""},
		{"evicts", "CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET maxmemory-policy noeviction", "store-evicts"},
		{"nearly full", "CONFIG SET maxmemory nearly", "CONFIG SET maxmemory 0", "store-memory"},
		{"room enough", "CONFIG SET maxmemory 1gb", "CONFIG SET maxmemory 0", ""},
		{"nothing on disk", "CONFIG SET appendonly no", "CONFIG SET appendonly yes", "store-volatile"},
		{"a replica", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "store-replica!"},
		{"too few replicas", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0",
			"store-few-replicas!"},
		{"sound again", "PING", "PING", ""},
	} {
		ask(t, admin, strings.ReplaceAll(tt.do, "nearly", fmt.Sprint(used(t, admin)*104/100)))
		if got, findings := examineStore(t, store.URL); got != tt.want {
			t.Errorf("%s: found %+v, want %q", tt.name, findings, tt.want)
		}
		ask(t, admin, tt.undo)
	}
}

func used(t *testing.T, rdb *redis.Client) (bytes int64) {
	t.Helper()
	info, err := rdb.InfoMap(t.Context(), "memory").Result()
	need(t, err)
	need(t, errOf(fmt.Sscan(info["Memory"]["used_memory"], &bytes)))
	return bytes
}

// TestDoctorGrant: a user with too little is told the least that it needs, and
// with that everything works.
func TestDoctorGrant(t *testing.T) {
	t.Parallel()
	store := privateStore(t, servers.RedisOptions{Args: saving})
	admin := client(t, store)
	at, err := url.Parse(store.URL)
	need(t, err)
	at.User, at.Path = url.UserPassword("orders", "hush"), "/3" // as a user might, in another database
	for _, rights := range []string{"~strikes:1:* +@all -hset -@sortedset", "~other:* +@all", "+@all",
		"~* +@read +ping +select", "~* -@all +select"} {
		ask(t, admin, "ACL SETUSER orders reset on >hush "+rights)
		got, findings := examineStore(t, at.String())
		if !strings.Contains(got, "store-acl!") {
			t.Errorf("%s: found %+v", rights, findings)
			continue
		}
		_, grant, found := strings.Cut(findings[0].Fix, "ACL SETUSER <user> ")
		if !found {
			t.Fatalf("%s: no grant in %q", rights, findings[0].Fix)
		}
		ask(t, admin, "ACL SETUSER orders reset on >hush "+grant)
		if got, findings := examineStore(t, at.String()); got != "" {
			t.Errorf("with what %q was told: found %+v", rights, findings)
		}
		takeSteps(t, counterOn(t, servertest.Patient(t, at.String()), ""))
		if rights == "~* -@all +select" {
			ask(t, admin, "ACL SETUSER orders -info")
			if got, findings := examineStore(t, at.String()); got != "store-not-seen" {
				t.Errorf("without INFO: found %+v", findings)
			}
		}
	}
}

// A store that is away, or does not let one in, is an error: nothing is known.
func TestDoctorStoreAway(t *testing.T) {
	t.Parallel()
	store := privateStore(t, servers.RedisOptions{Args: saving})
	ask(t, client(t, store), "CONFIG SET requirepass hush")
	for rawURL, want := range map[string]counter.StoreFault{
		store.URL:             counter.FaultDenied,
		"redis://127.0.0.1:1": counter.FaultUnreachable,
		strings.Replace(store.URL, "redis://", "redis://:wrong@", 1): counter.FaultDenied,
	} {
		findings, err := counterOn(t, servertest.Patient(t, rawURL), "").Admin().Examine(context.Background())
		var failed *counter.StoreError
		if !errors.As(err, &failed) || failed.Fault != want || len(findings) > 0 || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: got %v, %v, want %s", rawURL, findings, err, want)
		}
	}
}

// Each master of a Cluster is looked at.
func TestDoctorExaminesACluster(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	cluster := startRedisCluster(t, 5*time.Second)
	for _, node := range cluster.Nodes {
		ask(t, client(t, node), "CONFIG SET appendonly yes")
	}
	if got, findings := examineStore(t, cluster.URL); got != "" {
		t.Errorf("sound: found %+v", findings)
	}
	for _, node := range cluster.Nodes {
		ask(t, client(t, node), "CONFIG SET maxmemory-policy allkeys-lru")
	}
	if got, findings := examineStore(t, cluster.URL); got != "store-evicts store-evicts store-evicts" {
		t.Errorf("three masters evict: found %+v", findings)
	}
}

// TestDoctorGrantOnACluster: as TestDoctorGrant, for the commands that only a client of a Cluster sends.
func TestDoctorGrantOnACluster(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	cluster := startRedisCluster(t, 5*time.Second)
	setUser := func(rights string) {
		for _, node := range cluster.Nodes {
			ask(t, client(t, node), "CONFIG SET appendonly yes")
			ask(t, client(t, node), "ACL SETUSER orders reset on >hush "+rights)
			ask(t, client(t, node), "ACL LOG RESET")
		}
	}
	rawURL := strings.Replace(cluster.URL, "://", "://orders:hush@", 1)
	for rights, lacks := range map[string]string{
		"~strikes:1:* +@all -cluster":         "cluster|slots",
		"~strikes:1:* +@all -asking -evalsha": "evalsha, asking",
		"~strikes:1:* +@all -eval":            "eval",
	} {
		setUser(rights)
		got, findings := examineStore(t, rawURL)
		if got != "store-acl!" || !strings.Contains(findings[0].Seen, "may not run "+lacks+" on") {
			t.Errorf("%s: found %+v, want that it lacks %s", rights, findings, lacks)
			continue
		}
		_, grant, _ := strings.Cut(findings[0].Fix, "ACL SETUSER <user> ")
		setUser(grant)
		if got, findings := examineStore(t, rawURL); got != "" {
			t.Errorf("with what %q was told: found %+v", rights, findings)
		}
		takeSteps(t, counterOn(t, rawURL, ""))
		moveSlot(t, cluster, "orders", func(_, _ *servers.Redis, _ int64) {
			if _, err := counterOn(t, rawURL, "").Admin().Limit(t.Context(), "/", "orders"); err != nil {
				t.Errorf("while a slot moves: %v", err)
			}
		})
		for _, node := range cluster.Nodes {
			if denied := client(t, node).Do(t.Context(), "ACL", "LOG").Val(); fmt.Sprint(denied) != "[]" {
				t.Errorf("with what %q was told this was denied: %v", rights, denied)
			}
		}
	}
}

// moveSlot calls f while the slot of a queue moves from one master to another.
func moveSlot(t *testing.T, cluster *redisCluster, queue string, f func(from, to *servers.Redis, slot int64)) {
	t.Helper()
	from := cluster.master(t, "{%2F/"+queue+"}")
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	id := func(node *servers.Redis) string {
		return fmt.Sprint(client(t, node).Do(t.Context(), "CLUSTER", "MYID").Val())
	}
	slot := client(t, from).ClusterKeySlot(t.Context(), "{%2F/"+queue+"}").Val()
	ask(t, client(t, to), fmt.Sprintf("CLUSTER SETSLOT %d IMPORTING %s", slot, id(from)))
	ask(t, client(t, from), fmt.Sprintf("CLUSTER SETSLOT %d MIGRATING %s", slot, id(to)))
	f(from, to, slot)
	for _, node := range []*servers.Redis{from, to} {
		ask(t, client(t, node), fmt.Sprintf("CLUSTER SETSLOT %d STABLE", slot))
	}
}
