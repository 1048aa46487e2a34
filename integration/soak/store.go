package main

import (
	"context"
	"errors"
	"net/url"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/integration/internal/cluster"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servers"
)

// store is the Redis of a soak: one server, or a Cluster. It is always a private one, which keeps nothing on disk: what
// it loses is part of the test.
type store struct {
	url     string
	one     *servers.Redis // nil: it is a Cluster
	cluster *cluster.Redis // nil: it is one server
}

// slot is a key beside those of the queue, in the slot that all of them share.
const slot = "{%2F/" + queue + "}"

func openStore(ctx context.Context, cfg config) (*store, error) {
	if cfg.cluster {
		c, err := cluster.StartRedis(ctx, cluster.RedisOptions{})
		if err != nil {
			return nil, err
		}
		return &store{url: c.URL, cluster: c}, nil
	}
	r, err := servers.StartRedis(ctx, servers.RedisOptions{})
	if err != nil {
		return nil, err
	}
	return &store{url: r.URL, one: r}, nil
}

// newProxy returns a proxy of it, which treats requests if it is told how, or nil: a Cluster tells its clients the
// nodes' own addresses.
func (s *store) newProxy(ctx context.Context, treat func(words []string) proxy.Treatment) (*proxy.Proxy, error) {
	if s.one == nil {
		return nil, nil
	}
	u, err := url.Parse(s.url)
	if err != nil {
		return nil, err
	}
	if treat != nil {
		return proxy.NewStore(ctx, u.Host, treat)
	}
	return proxy.New(ctx, u.Host)
}

// through returns its URL, with the address of a proxy in it if there is one.
func (s *store) through(p *proxy.Proxy) string {
	if p == nil {
		return s.url
	}
	return (&url.URL{Scheme: "redis", Host: p.Addr(), Path: "/0"}).String()
}

// master is the server that has the queue's records now.
func (s *store) master(ctx context.Context) (*servers.Redis, error) {
	if s.one != nil {
		return s.one, nil
	}
	return s.cluster.Master(ctx, slot)
}

// recovered waits until a Cluster could stand the loss of another node.
func (s *store) recovered(ctx context.Context) error {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Await(ctx)
}

func (s *store) close() error {
	if s.one != nil {
		return s.one.Close()
	}
	return s.cluster.Close()
}

// onMaster runs do with a client of the server that has the queue's records.
func (s *store) onMaster(ctx context.Context, do func(*redis.Client) error) error {
	r, err := s.master(ctx)
	if err != nil {
		return err
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: u.Host})
	return errors.Join(do(rdb), rdb.Close())
}

// flush makes it forget everything.
func (s *store) flush(ctx context.Context) error {
	return s.onMaster(ctx, func(rdb *redis.Client) error { return rdb.FlushAll(ctx).Err() })
}
