package rig

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/integration/internal/cluster"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servers"
)

// Store is a Redis: one private server, a private Cluster, or one that is left alone. Or it is a private database.
type Store struct {
	URL      string
	One      *servers.Redis
	Cluster  *cluster.Redis
	Database *servers.Database // nil: it is a Redis; else one that keeps its data when it is killed
	kind     Database
	slot     string // of a Cluster: a key in the slot of the records
}

// Server is a server that can be killed and frozen.
type Server interface {
	Kill() error
	Start(ctx context.Context) error
	Pause() error
	Resume() error
}

// OpenDatabase starts one of Databases with further arguments.
func OpenDatabase(ctx context.Context, name string, args ...string) (*Store, error) {
	kind := Databases[name]
	d, err := kind.Start(ctx, servers.DatabaseOptions{Args: slices.Concat(kind.lasting, args)})
	if err != nil {
		return nil, err
	}
	s := &Store{Database: d, kind: kind}
	if s.URL, err = kind.Prepare(ctx, d.Addr); err == nil {
		err = errors.Join(d.Stop(ctx), d.Start(ctx)) // a MariaDB that is killed before its first stop loses all
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return s, nil
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
	c, err := cluster.StartRedis(ctx, time.Second)
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
	return proxy.NewStore(ctx, hostOf(s.URL), treat)
}

// Through returns its URL, with the address of a proxy in it if there is one.
func (s *Store) Through(p *proxy.Proxy) string {
	if p == nil {
		return s.URL
	}
	return through(s.URL, p.Addr())
}

// Master is the server that has the records now.
func (s *Store) Master(ctx context.Context) (Server, error) {
	if s.Database != nil {
		return s.Database, nil
	}
	return s.redis(ctx)
}

func (s *Store) redis(ctx context.Context) (*servers.Redis, error) {
	if s.One != nil {
		return s.One, nil
	}
	return s.Cluster.Master(ctx, s.slot)
}

// Terminate ends the sessions of a database's clients.
func (s *Store) Terminate(ctx context.Context) error { return s.kind.Terminate(ctx, s.Database.Addr) }

// Recovered waits until a Cluster could stand the loss of another node.
func (s *Store) Recovered(ctx context.Context) error {
	if s.Cluster == nil {
		return nil
	}
	return s.Cluster.Await(ctx)
}

// Flush makes it forget everything.
func (s *Store) Flush(ctx context.Context) error {
	if s.Database != nil {
		return s.kind.Do(ctx, s.Database.Addr, s.kind.forget...)
	}
	r, err := s.redis(ctx)
	if err != nil {
		return err
	}
	return r.Do(func(rdb *redis.Client) error { return rdb.FlushAll(ctx).Err() })
}

// Close ends it.
func (s *Store) Close() error {
	switch {
	case s == nil:
		return nil
	case s.Database != nil:
		return s.Database.Close()
	case s.One != nil:
		return s.One.Close()
	}
	return s.Cluster.Close()
}
