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

// outage is a kind of store outage.
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
	Most     int `json:"most_counted_of_one"`
	Open     int `json:"open_attempts"`
}

// count reads the records by their documented layout, not by the package that wrote them.
func (s *store) count(ctx context.Context) (kept, error) {
	var k kept
	scan := s.rdb.Scan(ctx, 0, "*:r:*", 1000).Iterator()
	for scan.Next(ctx) {
		text, err := s.rdb.Get(ctx, scan.Val()).Result()
		if err == nil {
			err = k.add(text)
		}
		if err != nil {
			return kept{}, fmt.Errorf("record %q: %w", scan.Val(), err)
		}
	}
	return k, scan.Err()
}

// add reads the words that a record begins with: failures, crashes, and as the thirteenth the token of the open
// attempt, . if there is none.
func (k *kept) add(record string) error {
	line, _, _ := strings.Cut(record, "\n")
	words := strings.Fields(line)
	if len(words) < 13 {
		return fmt.Errorf("%d words instead of 13 at least", len(words))
	}
	failures, err := strconv.Atoi(words[0])
	if err != nil {
		return fmt.Errorf("failures: %w", err)
	}
	crashes, err := strconv.Atoi(words[1])
	if err != nil {
		return fmt.Errorf("crashes: %w", err)
	}
	k.Records++
	k.Failures += failures
	k.Crashes += crashes
	k.Most = max(k.Most, failures+crashes)
	if words[12] != "." {
		k.Open++
	}
	return nil
}
