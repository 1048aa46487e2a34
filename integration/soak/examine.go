package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/integration/soak/audit"
)

// examine writes down every key. It reads the records by their documented layout, not by the package that wrote them.
func (s *store) examine(ctx context.Context, log *audit.Log) error {
	return s.onMaster(ctx, func(rdb *redis.Client) error { return examine(ctx, rdb, log) })
}

func examine(ctx context.Context, rdb *redis.Client, log *audit.Log) error {
	scan := rdb.Scan(ctx, 0, "*", 1000).Iterator()
	for scan.Next(ctx) {
		e := audit.Event{Kind: audit.Kept, Key: scan.Val()}
		ttl, err := rdb.PTTL(ctx, e.Key).Result()
		if err != nil {
			return fmt.Errorf("examining %q: %w", e.Key, err)
		}
		e.TTL = max(ttl, 0)
		if strings.Contains(e.Key, "}:r:") {
			if err := readRecord(ctx, rdb, &e); err != nil {
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

func readRecord(ctx context.Context, rdb *redis.Client, e *audit.Event) error {
	fields, err := rdb.HGetAll(ctx, e.Key).Result()
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
