package servers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

func TestRedis(t *testing.T) {
	servertest.Long(t)
	ownTemp(t)
	r := servertest.Store(t, servers.RedisOptions{Args: []string{"--maxmemory", "20mb"}})
	opts, err := redis.ParseURL(r.URL)
	need(t, err)
	opts.MaxRetries, opts.ContextTimeoutEnabled = -1, true
	rdb := redis.NewClient(opts)
	defer rdb.Close()

	need(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	if mem, err := rdb.ConfigGet(t.Context(), "maxmemory").Result(); err != nil || mem["maxmemory"] != "20971520" {
		t.Errorf("maxmemory %v, %v", mem, err)
	}

	need(t, r.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := rdb.Get(ctx, "k").Err(); err == nil {
		t.Error("it answers while paused")
	}
	need(t, r.Resume())
	if v, err := rdb.Get(t.Context(), "k").Result(); v != "v" {
		t.Errorf("after Pause and Resume: %q, %v", v, err)
	}

	need(t, r.Restart(t.Context()))
	if n, err := rdb.DBSize(t.Context()).Result(); n != 0 || err != nil {
		t.Errorf("after Restart: %d keys, %v", n, err)
	}
	need(t, r.Stop(t.Context()))
	if err := r.Pause(); err == nil || !strings.Contains(err.Error(), "not running") {
		t.Errorf("Pause after Stop: %v", err)
	}
	need(t, r.Start(t.Context()))
	_, port, _ := strings.Cut(opts.Addr, ":")
	proctest.LoopbackOnly(t, port)
}

func TestRedisThatDoesNotStart(t *testing.T) {
	servertest.Long(t)
	ownTemp(t)
	r, err := servers.StartRedis(t.Context(), servers.RedisOptions{Args: []string{"--no-such-option", "1"}})
	if err == nil {
		t.Fatal("it started", r.Close())
	}
	if !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("the log's tail is missing: %v", err)
	}
}
