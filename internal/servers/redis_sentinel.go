package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// sentinelMaster is what the sentinels call the store.
const sentinelMaster = "strikes"

// RedisSentinel is a private store of a master and a replica, watched by three
// sentinels. Its methods are for one goroutine at a time.
type RedisSentinel struct {
	URL             string // redis+sentinel://127.0.0.1:PORT/0?master_name=NAME&addr=..., naming every sentinel
	Master, Replica *Redis // as they began

	nodes []*Redis
}

// StartRedisSentinel starts the five servers and waits until all know each
// other and the replica has its data. Like StartRedis, it leaves nothing behind
// when it fails, and ctx has no say once it has returned.
func StartRedisSentinel(ctx context.Context) (*RedisSentinel, error) {
	s := &RedisSentinel{}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("servers: private Redis with sentinels: %w", err), s.Close())
	}
	return s, nil
}

func (s *RedisSentinel) start(ctx context.Context) (err error) {
	if s.Master, err = StartRedis(ctx, RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}}); err != nil {
		return err
	}
	s.nodes = append(s.nodes, s.Master)
	host, port, _ := strings.Cut(s.Master.addr(), ":")
	if s.Replica, err = StartRedis(ctx, RedisOptions{Args: []string{"--replicaof", host, port}}); err != nil {
		return err
	}
	s.nodes = append(s.nodes, s.Replica)
	if err := waitReady(ctx, s.Replica.server, func(ctx context.Context) error {
		return s.Replica.says(ctx, "master_link_status:up", replicationInfo)
	}); err != nil {
		return err
	}
	var addrs []string
	for range 3 {
		sentinel, err := s.watch(ctx)
		if err != nil {
			return err
		}
		addrs = append(addrs, sentinel.addr())
	}
	s.URL = "redis+sentinel://" + addrs[0] + "/0?master_name=" + sentinelMaster + "&addr=" + strings.Join(addrs[1:], "&addr=")
	for _, sentinel := range s.nodes[2:] {
		if err := waitReady(ctx, sentinel.server, sentinel.knowsAll); err != nil {
			return err
		}
	}
	return nil
}

// watch starts one more sentinel. It keeps its state in its configuration file.
func (s *RedisSentinel) watch(ctx context.Context) (*Redis, error) {
	dir, err := newWorkdir("sentinel", 1)
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(s.Master.addr(), ":")
	conf := []string{
		"port " + strconv.Itoa(dir.ports[0]), "bind 127.0.0.1", "dir " + dir.path, "daemonize no",
		"sentinel monitor " + sentinelMaster + " " + host + " " + port + " 2",
		"sentinel down-after-milliseconds " + sentinelMaster + " 500",
		"sentinel failover-timeout " + sentinelMaster + " 3000",
	}
	sentinel := &Redis{
		URL: fmt.Sprintf("redis://127.0.0.1:%d", dir.ports[0]), dir: dir,
		args: []string{s.Master.args[0], dir.join("sentinel.conf"), "--sentinel"},
	}
	s.nodes = append(s.nodes, sentinel)
	if err := os.WriteFile(dir.join("sentinel.conf"), []byte(strings.Join(conf, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	return sentinel, sentinel.Start(ctx)
}

// knowsAll fails unless this sentinel knows the two others and the replica.
func (r *Redis) knowsAll(ctx context.Context) error {
	return r.do(func(rdb *redis.Client) error {
		cmd := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", sentinelMaster)
		err := rdb.Process(ctx, cmd)
		known := cmd.Val()
		if err == nil && (known["num-slaves"] != "1" || known["num-other-sentinels"] != "2" || known["flags"] != "master") {
			err = fmt.Errorf("it knows %s replicas and %s other sentinels of a %s", known["num-slaves"], known["num-other-sentinels"], known["flags"])
		}
		return err
	})
}

// Close kills what still runs and removes the directories.
func (s *RedisSentinel) Close() error { return closeAll(s.nodes) }
