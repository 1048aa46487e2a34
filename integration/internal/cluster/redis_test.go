package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
)

func TestRedis(t *testing.T) {
	servertest.Long(t)
	proctest.Temp(t)
	c := servertest.Own(t, StartRedis, RedisOptions{NodeTimeout: 500 * time.Millisecond})
	was, err := c.Master(t.Context(), "{orders}")
	need(t, err)
	if err := do(was, func(rdb *redis.Client) error {
		return rdb.Set(t.Context(), "{orders}", "v", 0).Err()
	}); err != nil {
		t.Errorf("not the master of its slot: %v", err)
	}
	need(t, was.Kill())
	proctest.Within(t, time.Minute, func() error {
		now, err := c.Master(t.Context(), "{orders}")
		if err != nil {
			return err
		}
		return do(now, func(rdb *redis.Client) error { return rdb.Set(t.Context(), "{orders}", "w", 0).Err() })
	})
}

func TestSentinel(t *testing.T) {
	servertest.Long(t)
	proctest.Temp(t)
	s := servertest.Own(t, func(ctx context.Context, _ struct{}) (*Sentinel, error) {
		return StartSentinel(ctx)
	}, struct{}{})
	if err := says(t.Context(), s.Replica, "role:slave", "INFO", "replication"); err != nil {
		t.Error(err)
	}
	need(t, s.Master.Kill())
	proctest.Within(t, time.Minute, func() error { return says(t.Context(), s.Replica, "role:master", "INFO", "replication") })
}
