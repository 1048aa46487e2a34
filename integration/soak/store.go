package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/integration/soak/audit"
	"github.com/strikesmq/strikes/internal/servers"
)

// store is the Redis of a soak. It is always a private one, which keeps nothing on disk: what it loses is part of the test.
type store struct {
	*servers.Redis
	host string
	rdb  *redis.Client
}

func openStore(ctx context.Context) (*store, error) {
	r, err := servers.StartRedis(ctx, servers.RedisOptions{})
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &store{Redis: r, host: u.Host, rdb: redis.NewClient(&redis.Options{Addr: u.Host})}, nil
}

func (s *store) close() error { return errors.Join(s.rdb.Close(), s.Close()) }

// flush makes it forget everything.
func (s *store) flush(ctx context.Context) error { return s.rdb.FlushAll(ctx).Err() }

// examine writes down every key. It reads the records by their documented layout, not by the package that wrote them.
func (s *store) examine(ctx context.Context, log *audit.Log) error {
	scan := s.rdb.Scan(ctx, 0, "*", 1000).Iterator()
	for scan.Next(ctx) {
		e := audit.Event{Kind: audit.Kept, Key: scan.Val()}
		ttl, err := s.rdb.PTTL(ctx, e.Key).Result()
		if err != nil {
			return fmt.Errorf("examining %q: %w", e.Key, err)
		}
		e.TTL = max(ttl, 0)
		if strings.Contains(e.Key, "}:r:") {
			if err := s.readRecord(ctx, &e); err != nil {
				return fmt.Errorf("examining %q: %w", e.Key, err)
			}
		}
		if e.TTL > 0 || ttl != gone {
			log.Write(e)
		}
	}
	return scan.Err()
}

// gone is what PTTL answers of a key that does not exist.
const gone = -2 * time.Nanosecond

func (s *store) readRecord(ctx context.Context, e *audit.Event) error {
	fields, err := s.rdb.HGetAll(ctx, e.Key).Result()
	if err != nil {
		return err
	}
	for name, value := range fields {
		switch name {
		case "id":
			e.ID = value
		case "state":
			e.State = value
		case "marker":
			e.Marker = value
		case "tokens":
			e.Tokens = value
		case "failures":
			e.Failures, err = strconv.Atoi(value)
		case "crashes":
			e.Crashes, err = strconv.Atoi(value)
		}
		if err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
	}
	return nil
}
