package servers

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
)

// RedisOptions are the options of a private store. The zero value is a plain one.
type RedisOptions struct {
	// Args are added to its command line, for instance "--maxmemory", "10mb".
	Args []string

	// Config is the content of a configuration file, which the server may rewrite, as a sentinel does. If empty, there is
	// none.
	Config string

	// Cluster makes it a node of a cluster, with a bus port of its own.
	Cluster bool
}

// Redis is a private store that keeps nothing on disk: Kill and Stop lose all it held, unless
// RedisOptions.Args say otherwise.
type Redis struct {
	server
	Addr    string // 127.0.0.1:PORT, the same across Start
	URL     string // redis://127.0.0.1:PORT/0
	Version string // as the server names it, such as "7.0.15"
}

// StartRedis starts a private store and waits until it answers. It gives up when ctx is done, or after two minutes, and
// then leaves nothing behind. After it has returned, ctx has no effect: the store lives until Close. Where no Redis is
// installed the error is exec.ErrNotFound.
func StartRedis(ctx context.Context, opts RedisOptions) (*Redis, error) {
	bin, err := FindRedis()
	if err != nil {
		return nil, err
	}
	s, err := newServer("Redis", 2)
	if err != nil {
		return nil, err
	}
	r := &Redis{server: s, Addr: s.addr(0), URL: "redis://" + s.addr(0) + "/0"}
	r.probe, r.args = r.answers, []string{bin}
	if opts.Config != "" {
		r.args = append(r.args, s.dir.join("redis.conf"))
		err = os.WriteFile(r.args[1], []byte(opts.Config), 0o600)
	}
	r.args = append(r.args, "--port", s.port(0), "--bind", "127.0.0.1", "--dir", s.dir.path, "--save", "",
		"--appendonly", "no", "--daemonize", "no")
	if opts.Cluster {
		r.args = append(r.args, "--cluster-enabled", "yes", "--cluster-port", s.port(1))
	}
	r.args = append(r.args, opts.Args...)
	if err == nil {
		err = r.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Redis) answers(ctx context.Context) error {
	return r.Do(func(rdb *redis.Client) error {
		info, err := rdb.InfoMap(ctx, "server").Result()
		r.Version = info["Server"]["redis_version"]
		return err
	})
}

// Do runs f with a client of its own, which sends nothing twice.
func (r *Redis) Do(f func(*redis.Client) error) error {
	rdb := redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	if err := errors.Join(f(rdb), rdb.Close()); err != nil {
		return fmt.Errorf("%s: %w", r.Addr, err)
	}
	return nil
}
