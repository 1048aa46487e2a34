package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/servers"
)

// store is the Redis of a figure: always a private one. It keeps what it has when it is killed.
type store struct {
	*servers.Redis
	rdb *redis.Client
}

func openStore(ctx context.Context) (*store, error) {
	r, err := servers.StartRedis(ctx, servers.RedisOptions{Args: []string{"--appendonly", "yes"}})
	if err != nil {
		return nil, err
	}
	opts, err := redis.ParseURL(r.URL)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &store{Redis: r, rdb: redis.NewClient(opts)}, nil
}

func (s *store) close() error { return errors.Join(s.rdb.Close(), s.Close()) }

// outage is a way for a store to be away.
type outage string

const (
	killed outage = "kill"   // connections are refused
	frozen outage = "freeze" // connections stay open, and nothing answers
)

// away begins an outage, and back ends it.
func (s *store) away(how outage) error {
	switch how {
	case killed:
		return s.Kill()
	case frozen:
		return s.Pause()
	}
	return fmt.Errorf("-how is %q: kill or freeze", how)
}

func (s *store) back(ctx context.Context, how outage) error {
	if how == frozen {
		return s.Resume()
	}
	return s.Start(ctx)
}

// kept is what the records in the store add up to.
type kept struct {
	Records  int `json:"records"`
	Failures int `json:"failures"`
	Crashes  int `json:"crashes"`
	Most     int `json:"most_charges_of_one"`
	Open     int `json:"open_attempts"`
}

// count reads the records by their documented layout, not by the package that wrote them.
func (s *store) count(ctx context.Context) (kept, error) {
	var k kept
	scan := s.rdb.Scan(ctx, 0, "*:r:*", 1000).Iterator()
	for scan.Next(ctx) {
		fields, err := s.rdb.HGetAll(ctx, scan.Val()).Result()
		if err == nil {
			err = k.add(fields)
		}
		if err != nil {
			return kept{}, fmt.Errorf("record %q: %w", scan.Val(), err)
		}
	}
	return k, scan.Err()
}

func (k *kept) add(record map[string]string) error {
	var charges [2]int
	for i, field := range []string{"failures", "crashes"} {
		n, err := strconv.Atoi(strings.TrimSpace(record[field]))
		if err != nil && record[field] != "" {
			return fmt.Errorf("field %s: %w", field, err)
		}
		charges[i] = n
	}
	k.Records++
	k.Failures += charges[0]
	k.Crashes += charges[1]
	k.Most = max(k.Most, charges[0]+charges[1])
	if record["marker"] != "" {
		k.Open++
	}
	return nil
}
