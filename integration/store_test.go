package integration

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

func dialStore(t *testing.T, url string) *counter.Counter {
	t.Helper()
	return counterOn(t, url, uniqueName(t, "strikes"))
}

func attemptOf(id, token string) counter.Attempt {
	return counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: id}, Token: token, Consumer: "test"}
}

// client returns a client for commands that a Counter does not send.
func client(t *testing.T, store *servers.Redis) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: store.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

func do(t *testing.T, rdb *redis.Client, args ...any) {
	t.Helper()
	if err := rdb.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// stepped counts the messages of takeSteps.
var stepped atomic.Int64

// takeSteps is the life of a message: failed, taken over, dead-lettered, reset. Each call takes another message.
func takeSteps(t *testing.T, c *counter.Counter) {
	t.Helper()
	ctx, id := t.Context(), fmt.Sprint(stepped.Add(1))
	limit := counter.Failure{Limit: 3, Reason: "boom"}
	first := attemptOf(id, "a")
	first.First = true
	fence, starts := int64(0), 0
	for i, step := range []struct {
		take func() (counter.Reply, error)
		want string
	}{
		{func() (counter.Reply, error) { return c.Fail(ctx, first, limit) }, "REQUEUE 1+0 fence 0"},
		{func() (counter.Reply, error) { return c.Fail(ctx, first, limit) }, "REQUEUE 1+0 fence 0"},
		{func() (counter.Reply, error) {
			return c.Start(ctx, attemptOf(id, "b"), rules.ModeShared, 3)
		}, "RUN 1+0 fence 1"},
		{func() (counter.Reply, error) {
			return c.Start(ctx, attemptOf(id, "c"), rules.ModeShared, 3)
		}, "SUSPECT 1+0 fence 1"},
		{func() (counter.Reply, error) {
			return c.Start(ctx, attemptOf(id, "c"), rules.ModeIsolated, 3)
		}, "RUN 1+0 fence 2"},
		{func() (counter.Reply, error) { return c.Begun(ctx, attemptOf(id, "c")) }, "BEGUN 1+0 fence 2"},
		{func() (counter.Reply, error) {
			return c.Start(ctx, attemptOf(id, "d"), rules.ModeIsolated, 3)
		}, "RUN 1+1 fence 3"},
		{func() (counter.Reply, error) { return c.Fail(ctx, attemptOf(id, "d"), limit) }, "EXHAUSTED 2+1 fence 3"},
		{func() (counter.Reply, error) {
			return c.Start(ctx, attemptOf(id, "e"), rules.ModeShared, 3)
		}, "EXHAUSTED 2+1 fence 3"},
	} {
		a, err := step.take()
		if a.Fence > fence {
			fence, starts = a.Fence, starts+1
		} else if a.Fence < fence {
			t.Errorf("step %d: the fence went from %d back to %d", i+1, fence, a.Fence)
		}
		if got := fmt.Sprintf("%v %d+%d fence %d", a.Code, a.Failures, a.Crashes, starts); err != nil || got != step.want {
			t.Errorf("step %d: %s, %v, want %s", i+1, got, err, step.want)
		}
	}
	if err := c.End(ctx, attemptOf(id, "c"), false); err != nil { // its process lived: the crash is refunded
		t.Error(err)
	}
	records, err := c.Admin().Get(ctx, "/", "orders", id)
	if err != nil || len(records) != 1 || records[0].State != counter.StateDeadLetter || records[0].Counted() != 2 ||
		records[0].TTL <= 0 {
		t.Errorf("get: %+v, %v", records, err)
	}
	for r, err := range c.Admin().List(ctx, "/", "orders") {
		if err != nil || r.ID != id {
			t.Errorf("list: %+v, %v", r, err)
		}
	}
	if err := c.Admin().Reset(ctx, attemptOf(id, "c").Message, counter.Note{Why: "repaired"}); err != nil {
		t.Error(err)
	}
}

func TestStoreSteps(t *testing.T) { takeSteps(t, dialStore(t, patientURL(t))) }

// TestStoreCauses: the causes of a store's failure are told apart, on real servers.
func TestStoreCauses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		want counter.StoreFault
		fail func(t *testing.T) string // returns the URL of a store that fails
	}{
		"replica": {counter.FaultReadOnly, func(t *testing.T) string {
			u := hostOf(t, privateStore(t, servers.RedisOptions{}))
			return privateStore(t, servers.RedisOptions{Args: []string{"--replicaof", u.Hostname(), u.Port()}}).URL
		}},
		"out of space": {counter.FaultOutOfSpace, func(t *testing.T) string {
			return privateStore(t, servers.RedisOptions{Args: []string{"--maxmemory", "100kb"}}).URL
		}},
		"cannot save": {counter.FaultReadOnly, func(t *testing.T) string {
			store := privateStore(t, servers.RedisOptions{})
			rdb := client(t, store)
			do(t, rdb, "CONFIG", "SET", "save", "3600 1000")
			do(t, rdb, "SET", "key", "value")
			got, err := rdb.ConfigGet(t.Context(), "dir").Result() // a directory has the name of the file
			need(t, errors.Join(err, os.Mkdir(filepath.Join(got["dir"], "dump.rdb"), 0o700), rdb.BgSave(t.Context()).Err()))
			eventually(t, "a save that failed", func() bool {
				return redis.HasErrorPrefix(rdb.Set(t.Context(), "key", "value", 0).Err(), "MISCONF")
			})
			return store.URL
		}},
		"busy": {counter.FaultBusy, func(t *testing.T) string {
			store := privateStore(t, servers.RedisOptions{Args: []string{"--lua-time-limit", "50"}})
			spin(t, store)
			return store.URL
		}},
		"no password": {counter.FaultDenied, func(t *testing.T) string {
			return withPassword(t).URL
		}},
		"wrong password": {counter.FaultDenied, func(t *testing.T) string {
			return "redis://:wrong@" + hostOf(t, withPassword(t)).Host
		}},
		"keys denied":       {counter.FaultDenied, withACL("~other:*", "+@all")},
		"EVALSHA denied":    {counter.FaultDenied, withACL("~*", "+@all", "-evalsha")},
		"a command in it":   {counter.FaultDenied, withACL("~*", "+@all", "-zadd")},
		"its very first":    {counter.FaultDenied, withACL("~*", "+@all", "-time")},
		"a user who is off": {counter.FaultDenied, withACL("off")},
		"paused": {counter.FaultSlow, func(t *testing.T) string {
			store := privateStore(t, servers.RedisOptions{})
			need(t, store.Pause())
			return store.URL
		}},
		"killed": {counter.FaultUnreachable, func(t *testing.T) string {
			store := privateStore(t, servers.RedisOptions{})
			need(t, store.Kill())
			return store.URL
		}},
		"replicas missing": {counter.FaultFailover, func(t *testing.T) string {
			return privateStore(t, servers.RedisOptions{Args: []string{"--min-replicas-to-write", "1"}}).URL
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := dialStore(t, tc.fail(t))
			var failed *counter.StoreError
			for range 10 {
				begin := time.Now()
				_, err := c.Fail(t.Context(), attemptOf("1", "a"), counter.Failure{Limit: 3})
				if !errors.As(err, &failed) {
					t.Fatalf("%v, want a store error", err)
				}
				if took := time.Since(begin); took > 20*time.Second { // with go-redis's own repetitions it is a minute
					t.Errorf("reported after %v", took)
				}
				if failed.Fault != counter.FaultSlow { // a store short of CPU may say that it is busy only after the timeout
					break
				}
			}
			if failed.Fault != tc.want {
				t.Errorf("%v, want fault %q", failed, tc.want)
			}
		})
	}
}

func hostOf(t *testing.T, store *servers.Redis) *url.URL {
	t.Helper()
	u, err := url.Parse(store.URL)
	need(t, err)
	return u
}

// spin keeps a store busy with a script, and returns once it says so.
func spin(t *testing.T, store *servers.Redis) {
	t.Helper()
	rdb := client(t, store)
	done := make(chan struct{})
	go func() {
		defer close(done)
		rdb.Eval(context.WithoutCancel(t.Context()), "while true do end", nil)
	}()
	t.Cleanup(func() {
		rdb.ScriptKill(context.Background())
		<-done
	})
	eventually(t, "a busy store", func() bool { return redis.HasErrorPrefix(rdb.Ping(t.Context()).Err(), "BUSY") })
}

func withPassword(t *testing.T) *servers.Redis {
	t.Helper()
	store := privateStore(t, servers.RedisOptions{})
	do(t, client(t, store), "CONFIG", "SET", "requirepass", "secret")
	return store
}

// withACL returns the URL of a user with these rules alone.
func withACL(rules ...string) func(t *testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		store := privateStore(t, servers.RedisOptions{})
		args := []any{"ACL", "SETUSER", "app", "on", ">secret"}
		for _, r := range rules {
			args = append(args, r)
		}
		do(t, client(t, store), args...)
		return "redis://app:secret@" + hostOf(t, store).Host
	}
}

// TestStoreForgetsItsScripts: SCRIPT FLUSH and a restart are healed within one call.
func TestStoreForgetsItsScripts(t *testing.T) {
	t.Parallel()
	store := privateStore(t, servers.RedisOptions{})
	c := dialStore(t, servertest.Patient(t, store.URL))
	for i, token := range []string{"a", "b", "c"} {
		got, err := c.Fail(t.Context(), attemptOf("1", token), counter.Failure{Limit: 9})
		if err != nil || got.Counted() != i+1 {
			t.Errorf("token %s: %+v, %v", token, got, err)
		}
		do(t, client(t, store), "SCRIPT", "FLUSH")
	}
}

// TestStoreCheck: a store with snapshots causes no warning, also if the user may not read its settings.
// TestDoctorExaminesTheStore has the settings that lose counts.
func TestStoreCheck(t *testing.T) {
	t.Parallel()
	store := privateStore(t, servers.RedisOptions{Args: []string{"--save", "3600 1"}})
	do(t, client(t, store), "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-info", "-config")
	for _, at := range []string{store.URL, "redis://app:secret@" + hostOf(t, store).Host} {
		warnings, err := dialStore(t, servertest.Patient(t, at)).Check(t.Context())
		if err != nil || len(warnings) != 0 {
			t.Errorf("%s: %q, %v", at, warnings, err)
		}
	}
}

// TestStoreDeniesHashes: a user that may not send HGETALL is denied. No other program wrote to a key, and the remedy
// for that, DEL, would remove the operators' limits and pauses.
func TestStoreDeniesHashes(t *testing.T) {
	t.Parallel()
	admin := dialStore(t, servertest.Patient(t, withACL("~*", "+@all", "-hgetall")(t))).Admin()
	_, state := admin.State(t.Context(), "/", "orders")
	_, limit := admin.Limit(t.Context(), "/", "orders")
	for _, err := range []error{state, limit} {
		var of *counter.StoreError
		if !errors.As(err, &of) || of.Fault != counter.FaultDenied {
			t.Errorf("got %v, want that the store denied it", err)
		}
	}
}

// TestStoreCluster: the steps on a Cluster, a slot a queue; then the master of a queue dies.
func TestStoreCluster(t *testing.T) {
	t.Parallel()
	cluster := startRedisCluster(t, time.Second)
	c := dialStore(t, servertest.Patient(t, cluster.URL))
	takeSteps(t, c)
	if _, err := c.Check(t.Context()); err != nil {
		t.Error(err)
	}
	refusesKind(t, cluster.Nodes[0].URL, "scheme redis+cluster or rediss+cluster")
	alone, moved := dialStore(t, servertest.Patient(t, cluster.Nodes[0].URL)), false
	for i := range 50 {
		a := attemptOf("1", "a")
		a.Queue = fmt.Sprintf("queue%d", i)
		_, err := alone.Fail(t.Context(), a, counter.Failure{Limit: 3})
		moved = moved || err != nil && strings.HasSuffix(err.Error(), "scheme redis+cluster or rediss+cluster")
	}
	if !moved {
		t.Error("a step on another master does not say what to write")
	}

	rdb := client(t, cluster.Nodes[0])
	slots := map[int64]bool{}
	for i := range 50 { // more queues than one master would serve
		tag := fmt.Sprintf("{%%2F/queue%d}", i)
		slot := rdb.ClusterKeySlot(t.Context(), "strikes:1:"+tag+":index").Val()
		if other := rdb.ClusterKeySlot(t.Context(), "strikes:1:"+tag+":r:00:0").Val(); other != slot {
			t.Errorf("%s: index and record are in the slots %d and %d", tag, slot, other)
		}
		slots[slot] = true
		a := attemptOf("1", "a")
		a.Queue = fmt.Sprintf("queue%d", i)
		if _, err := c.Fail(t.Context(), a, counter.Failure{Limit: 3}); err != nil {
			t.Error(err)
		}
	}
	if len(slots) < 40 {
		t.Errorf("50 queues share %d slots", len(slots))
	}

	survives(t, dialStore(t, cluster.URL), cluster.master(t, "{%2F/orders}"))
}

// survives kills the master and takes the same step, with the same token, until it is answered, as a consumer does. The
// sentinels take half a second to believe that it is dead, the nodes of a cluster a second.
func survives(t *testing.T, c *counter.Counter, master *servers.Redis) {
	t.Helper()
	limit := counter.Failure{Limit: 9, Reason: "boom"}
	need(t, errOf(c.Fail(t.Context(), attemptOf("2", "a"), limit)))
	need(t, master.Kill())
	begin, tries := time.Now(), 0
	var last error
	eventually(t, "an answer after the failover", func() bool {
		tries++
		_, err := c.Fail(t.Context(), attemptOf("2", "b"), limit)
		var failed *counter.StoreError
		if err != nil && (!errors.As(err, &failed) || failed.Fault == counter.FaultDenied ||
			failed.Fault == counter.FaultOtherKind) {
			t.Fatalf("a failover is taken for something that will not pass: %v", err)
		}
		last = errors.Join(last, err)
		return err == nil
	})
	took := time.Since(begin)
	t.Logf("answered after %v, %d tries", took.Round(time.Millisecond), tries)
	if took > 30*time.Second { // it is a minute if the client does not ask for the new master
		t.Errorf("it took %v; on the way: %v", took, last)
	}
	got, err := c.Fail(t.Context(), attemptOf("2", "b"), limit)
	if err != nil || got.Failures < 1 || got.Failures > 2 { // replication is asynchronous: a's count may be lost
		t.Errorf("the token was counted more than once: %+v, %v", got, err)
	}
	records, err := c.Admin().Get(t.Context(), "/", "orders", "2")
	if err != nil || len(records) != 1 || records[0].Tokens.Of("b") != rules.KindFailed ||
		len(records[0].Tokens) != records[0].Counted() {
		t.Errorf("%+v, %v", records, err)
	}
}
