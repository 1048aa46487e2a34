package servers

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestRedisCluster(t *testing.T) {
	ownTemp(t)
	c := start(t, StartRedisCluster, RedisClusterOptions{NodeTimeout: 500 * time.Millisecond})
	was, err := c.Master(t.Context(), "{orders}")
	if err != nil {
		t.Fatal(err)
	}
	if err := was.do(func(rdb *redis.Client) error { return rdb.Set(t.Context(), "{orders}", "v", 0).Err() }); err != nil {
		t.Errorf("not the master of its slot: %v", err)
	}
	if err := was.Kill(); err != nil {
		t.Fatal(err)
	}
	within(t, 20*time.Second, func() error {
		now, err := c.Master(t.Context(), "{orders}")
		if err != nil {
			return err
		}
		return now.do(func(rdb *redis.Client) error { return rdb.Set(t.Context(), "{orders}", "w", 0).Err() })
	})
}

func TestRedisSentinel(t *testing.T) {
	ownTemp(t)
	s := start(t, func(ctx context.Context, _ struct{}) (*RedisSentinel, error) { return StartRedisSentinel(ctx) }, struct{}{})
	if err := s.Replica.says(t.Context(), "role:slave", replicationInfo); err != nil {
		t.Error(err)
	}
	if err := s.Master.Kill(); err != nil {
		t.Fatal(err)
	}
	within(t, 20*time.Second, func() error { return s.Replica.says(t.Context(), "role:master", replicationInfo) })
}
