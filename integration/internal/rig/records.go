package rig

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/audit"
)

// Kept returns an event for every key. It reads the records by their documented layout, not by the package that wrote
// them.
func (s *Store) Kept(ctx context.Context) (all []audit.Event, err error) {
	err = s.Do(ctx, func(rdb *redis.Client) error { all, err = kept(ctx, rdb); return err })
	return all, err
}

func kept(ctx context.Context, rdb *redis.Client) (all []audit.Event, err error) {
	scan := rdb.Scan(ctx, 0, "*", 1000).Iterator()
	for scan.Next(ctx) {
		e := audit.Event{Kind: audit.Kept, Key: scan.Val()}
		ttl, err := rdb.PTTL(ctx, e.Key).Result()
		if err == nil && strings.Contains(e.Key, "}:r:") {
			var text string
			if text, err = rdb.Get(ctx, e.Key).Result(); err == nil {
				err = readRecord(text, &e)
			}
		}
		if err == redis.Nil || ttl == gone { //nolint:errorlint // it expired meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("examining %q: %w", e.Key, err)
		}
		e.TTL = max(ttl, 0)
		all = append(all, e)
	}
	return all, scan.Err()
}

// gone is what PTTL answers of a key that does not exist.
const gone = -2 * time.Nanosecond

// readRecord takes a record apart: a line of words, where a dot is an absent one, and then texts, of which the id is
// first.
func readRecord(text string, e *audit.Event) error {
	line, texts, _ := strings.Cut(text, "\n")
	w := strings.Split(line, " ")
	if len(w) < 25 {
		return fmt.Errorf("%d words in its first line", len(w))
	}
	var n [3]int
	for i, at := range []int{0, 1, 20} {
		var err error
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
