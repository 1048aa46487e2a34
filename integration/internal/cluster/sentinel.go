package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/servers"
)

// sentinelMaster is the name of the store at the sentinels.
const sentinelMaster = "strikes"

// Sentinel is a private Redis of a master and a replica, watched by three sentinels.
type Sentinel struct {
	URL             string         // redis+sentinel://127.0.0.1:PORT/0?master_name=NAME&addr=..., naming every sentinel
	Master, Replica *servers.Redis // as they began

	nodes []*servers.Redis
}

// StartSentinel starts the five servers and waits until all know each other and the replica has its data. It leaves
// nothing behind when it fails, and ctx has no effect once it has returned.
func StartSentinel(ctx context.Context) (*Sentinel, error) {
	s := &Sentinel{}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a private Redis with sentinels: %w", err), s.Close())
	}
	return s, nil
}

func (s *Sentinel) start(ctx context.Context) (err error) {
	if s.Master, err = s.add(ctx, servers.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}}); err != nil {
		return err
	}
	host, port, _ := strings.Cut(s.Master.Addr, ":")
	if s.Replica, err = s.add(ctx, servers.RedisOptions{Args: []string{"--replicaof", host, port}}); err != nil {
		return err
	}
	if err := poll.Until(ctx, patience, "the replica", func() error {
		return says(ctx, s.Replica, "master_link_status:up", "INFO", "replication")
	}); err != nil {
		return err
	}
	conf := strings.ReplaceAll(`sentinel monitor NAME `+host+` `+port+` 2
sentinel down-after-milliseconds NAME 500
sentinel failover-timeout NAME 3000
`, "NAME", sentinelMaster)
	var addrs []string
	for range 3 {
		sentinel, err := s.add(ctx, servers.RedisOptions{Config: conf, Args: []string{"--sentinel"}})
		if err != nil {
			return err
		}
		addrs = append(addrs, sentinel.Addr)
	}
	s.URL = "redis+sentinel://" + addrs[0] + "/0?master_name=" + sentinelMaster + "&addr=" + strings.Join(addrs[1:],
		"&addr=")
	for _, sentinel := range s.nodes[2:] {
		if err := poll.Until(ctx, patience, "the sentinels", func() error { return knowsAll(ctx, sentinel) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sentinel) add(ctx context.Context, opts servers.RedisOptions) (*servers.Redis, error) {
	node, err := servers.StartRedis(ctx, opts)
	if err == nil {
		s.nodes = append(s.nodes, node)
	}
	return node, err
}

// knowsAll fails unless a sentinel knows the two others and the replica.
func knowsAll(ctx context.Context, sentinel *servers.Redis) error {
	return sentinel.Do(func(rdb *redis.Client) error {
		cmd := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", sentinelMaster)
		err := rdb.Process(ctx, cmd)
		known := cmd.Val()
		if err == nil && (known["num-slaves"] != "1" || known["num-other-sentinels"] != "2" || known["flags"] != "master") {
			err = fmt.Errorf("it knows %s replicas and %s other sentinels of a %s", known["num-slaves"],
				known["num-other-sentinels"], known["flags"])
		}
		return err
	})
}

// Close kills the processes that still run and removes the directories.
func (s *Sentinel) Close() error { return servers.CloseAll(s.nodes) }
