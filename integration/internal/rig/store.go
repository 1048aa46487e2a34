package rig

import (
	"context"
	"errors"
	"net/url"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/integration/internal/cluster"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servers"
)

// Store is a Redis: one private server, a private Cluster, or one that is left alone.
type Store struct {
	URL     string
	One     *servers.Redis
	Cluster *cluster.Redis
	slot    string // a key in the slot of the records
}

// OpenStore starts one server with some arguments. It keeps nothing on disk unless they say otherwise.
func OpenStore(ctx context.Context, args ...string) (*Store, error) {
	r, err := servers.StartRedis(ctx, servers.RedisOptions{Args: args})
	if err != nil {
		return nil, err
	}
	return &Store{URL: r.URL, One: r}, nil
}

// OpenStoreCluster starts a Cluster for the records of one queue of the virtual host /.
func OpenStoreCluster(ctx context.Context, queue string) (*Store, error) {
	c, err := cluster.StartRedis(ctx, cluster.RedisOptions{})
	if err != nil {
		return nil, err
	}
	return &Store{URL: c.URL, Cluster: c, slot: "{%2F/" + queue + "}"}, nil
}

// NewProxy returns a proxy of it, which treats requests if it is told how, or nil: a Cluster tells its clients the
// nodes' own addresses.
func (s *Store) NewProxy(ctx context.Context, treat func(words []string) proxy.Treatment) (*proxy.Proxy, error) {
	if s.Cluster != nil {
		return nil, nil
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	if treat != nil {
		return proxy.NewStore(ctx, u.Host, treat)
	}
	return proxy.New(ctx, u.Host)
}

// Through returns its URL, with the address of a proxy in it if there is one.
func (s *Store) Through(p *proxy.Proxy) string {
	if p == nil {
		return s.URL
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	u.Host = p.Addr()
	return u.String()
}

// Master is the server that has the records now.
func (s *Store) Master(ctx context.Context) (*servers.Redis, error) {
	if s.One != nil {
		return s.One, nil
	}
	return s.Cluster.Master(ctx, s.slot)
}

// Recovered waits until a Cluster could stand the loss of another node.
func (s *Store) Recovered(ctx context.Context) error {
	if s.Cluster == nil {
		return nil
	}
	return s.Cluster.Await(ctx)
}

// Do runs do with a client of the server that has the records.
func (s *Store) Do(ctx context.Context, do func(*redis.Client) error) error {
	r, err := s.Master(ctx)
	if err != nil {
		return err
	}
	opts, err := redis.ParseURL(r.URL)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	return errors.Join(do(rdb), rdb.Close())
}

// Flush makes it forget everything.
func (s *Store) Flush(ctx context.Context) error {
	return s.Do(ctx, func(rdb *redis.Client) error { return rdb.FlushAll(ctx).Err() })
}

// Close ends it.
func (s *Store) Close() error {
	if s.One != nil {
		return s.One.Close()
	}
	return s.Cluster.Close()
}
