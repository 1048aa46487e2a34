package rig

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servers"
)

// Store is a private Redis, or a private database.
type Store struct {
	URL      string
	One      *servers.Redis
	Database *servers.Database // nil: it is a Redis; else one that keeps its data when it is killed
	kind     Database
}

// Server is a server that can be killed and frozen.
type Server interface {
	Kill() error
	Start(ctx context.Context) error
	Pause() error
	Resume() error
}

// Redis is the kind of store that is no database.
const Redis = "redis"

// OpenStore starts a Redis, or one of Databases, with further arguments. A Redis keeps nothing on disk unless they say
// otherwise.
func OpenStore(ctx context.Context, name string, args ...string) (*Store, error) {
	if name == Redis {
		r, err := servers.StartRedis(ctx, servers.RedisOptions{Args: args})
		if err != nil {
			return nil, err
		}
		return &Store{URL: r.URL, One: r}, nil
	}
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

// NewProxy returns a proxy of it, which treats requests if it is told how.
func (s *Store) NewProxy(ctx context.Context, treat func(words []string) proxy.Treatment) (*proxy.Proxy, error) {
	return proxy.NewStore(ctx, hostOf(s.URL), treat)
}

// Through returns its URL with another address in it.
func (s *Store) Through(addr string) string { return through(s.URL, addr) }

// Server is its process.
func (s *Store) Server() Server {
	if s.Database != nil {
		return s.Database
	}
	return s.One
}

// Terminate ends the sessions of a database's clients.
func (s *Store) Terminate(ctx context.Context) error { return s.kind.Terminate(ctx, s.Database.Addr) }

// Flush makes it forget everything.
func (s *Store) Flush(ctx context.Context) error {
	if s.Database != nil {
		return s.kind.empty(ctx, s.Database.Addr)
	}
	return s.One.Do(func(rdb *redis.Client) error { return rdb.FlushAll(ctx).Err() })
}

// Close ends it.
func (s *Store) Close() error {
	switch {
	case s == nil:
		return nil
	case s.Database != nil:
		return s.Database.Close()
	}
	return s.One.Close()
}
