package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/audit"
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

// readRecord takes a record apart: a line of words, where a dot is an absent one, and then texts, of which the id is
// first.
func readRecord(ctx context.Context, rdb *redis.Client, e *audit.Event) error {
	text, err := rdb.Get(ctx, e.Key).Result()
	if errors.Is(err, redis.Nil) { // it expired meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	line, texts, _ := strings.Cut(text, "\n")
	w := strings.Split(line, " ")
	if len(w) < 25 {
		return fmt.Errorf("%d words in its first line", len(w))
	}
	var n [3]int
	for i, at := range []int{0, 1, 20} {
		if n[i], err = strconv.Atoi(w[at]); err != nil {
			return fmt.Errorf("word %d: %w", at+1, err)
		}
	}
	if n[2] > len(texts) {
		return fmt.Errorf("an id of %d bytes in %d", n[2], len(texts))
	}
	e.ID = texts[:n[2]]
	e.Record = &audit.Record{
		State: strings.TrimPrefix(w[5], "."), Failures: n[0], Crashes: n[1],
		OpenToken: strings.TrimPrefix(w[12], "."), Tokens: strings.TrimPrefix(w[19], "."),
	}
	return nil
}
