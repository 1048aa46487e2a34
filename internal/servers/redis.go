package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// RedisOptions says what private store to start. The zero value is a plain one.
type RedisOptions struct {
	// Server is the path of the server to run. If empty, an installed
	// redis-server, else a valkey-server.
	Server string

	// Args are added to its command line, for instance "--maxmemory", "10mb".
	Args []string

	// Config is what a configuration file holds that the server may rewrite,
	// as a sentinel does. If empty, there is none.
	Config string

	// Cluster makes it a node of a cluster, with a bus port of its own.
	Cluster bool
}

// Redis is a private store that keeps nothing on disk: Kill, Stop and Restart
// lose all it held, unless RedisOptions.Args say otherwise. Its methods are for
// one goroutine at a time.
type Redis struct {
	URL     string // redis://127.0.0.1:PORT/0, the same across Start
	BusPort int    // for the other nodes of a cluster
	Version string // as the server names it, such as "7.0.15"

	process
	dir  *workdir
	args []string
}

// StartRedis starts a private store and waits until it answers. It gives up
// when ctx is done, or after two minutes, and then leaves nothing behind. Once
// it has returned, ctx has no say: the store lives until Close. Where no Redis
// is installed the error is exec.ErrNotFound.
func StartRedis(ctx context.Context, opts RedisOptions) (*Redis, error) {
	r, err := newRedis(opts)
	if err != nil {
		return nil, fmt.Errorf("servers: private Redis: %w", err)
	}
	if err := r.Start(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func newRedis(opts RedisOptions) (_ *Redis, err error) {
	if opts.Server == "" {
		if opts.Server, err = FindRedis(); err != nil {
			return nil, err
		}
	}
	dir, err := newWorkdir("redis", 2)
	if err != nil {
		return nil, err
	}
	args := []string{opts.Server}
	if opts.Config != "" {
		args = append(args, dir.join("redis.conf"))
		if err := os.WriteFile(args[1], []byte(opts.Config), 0o600); err != nil {
			return nil, errors.Join(err, dir.close())
		}
	}
	args = append(args, "--port", strconv.Itoa(dir.ports[0]), "--bind", "127.0.0.1", "--dir", dir.path,
		"--save", "", "--appendonly", "no", "--daemonize", "no")
	if opts.Cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(dir.ports[1]))
	}
	return &Redis{
		URL: fmt.Sprintf("redis://127.0.0.1:%d/0", dir.ports[0]), BusPort: dir.ports[1], dir: dir,
		args: append(args, opts.Args...),
	}, nil
}

// Start starts the store again after Stop or Kill, on the same port, and waits
// until it answers.
func (r *Redis) Start(ctx context.Context) (err error) {
	if r.server.running() {
		return errors.New("servers: Redis runs already")
	}
	r.server, err = startChild(r.dir, "redis", []string{"PATH=" + searchPath(), "HOME=" + r.dir.path}, r.args...)
	if err == nil {
		err = waitReady(ctx, r.server, r.probe)
	}
	if err != nil {
		return fmt.Errorf("servers: starting %s: %w", r.args[0], errors.Join(err, r.server.kill()))
	}
	return nil
}

// Await calls probe until it succeeds, as Start does.
func (r *Redis) Await(ctx context.Context, probe func(context.Context) error) error {
	return waitReady(ctx, r.server, probe)
}

// Restart is Kill and Start: the same port, and nothing of what it held.
func (r *Redis) Restart(ctx context.Context) error {
	if err := r.Kill(); err != nil {
		return err
	}
	return r.Start(ctx)
}

// Close kills the store if it still runs and removes its directory. It must be
// called once; the store cannot be started again.
func (r *Redis) Close() error {
	if err := errors.Join(r.server.kill(), r.dir.close()); err != nil {
		return fmt.Errorf("servers: closing Redis: %w", err)
	}
	return nil
}

func (r *Redis) probe(ctx context.Context) error {
	opts, err := redis.ParseURL(r.URL)
	if err != nil {
		return err
	}
	opts.MaxRetries = -1
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	info, err := rdb.InfoMap(ctx, "server").Result()
	if closed := rdb.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	r.Version = info["Server"]["redis_version"]
	return nil
}
