package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// page is how many records List reads in one round trip.
const page = 200

// scanned is how many members of an index the store examines in one round trip, which occupies it for 1 to 4 ms.
const scanned = 3000

// Admin reads and changes what a Counter keeps: records, limits, grants and the counts of a queue. It is for operators and
// their tools; no consumer needs it. It is safe for concurrent use. Errors of the store are a *StoreError.
type Admin struct{ *client }

// Now returns the time by the store's clock, which the times of records refer to.
func (a *Admin) Now(ctx context.Context) (time.Time, error) {
	if a.refuse != nil {
		return time.Time{}, a.refuse
	}
	now, err := a.rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("counter: time: %w", a.storeError(err))
	}
	return now.UTC(), nil
}

// Get returns the records of all generations of an id in a queue, newest first; none if nothing is kept of it. Values that
// another program wrote to a record's key are among them, with StateForeign. Get scans the queue's index on the server, a few
// thousand entries per round trip. A generation that succeeded within the last ten minutes is found only if it was the first.
func (a *Admin) Get(ctx context.Context, vhost, queue, id string) ([]Record, error) {
	members, err := a.generationsOf(ctx, vhost, queue, id)
	var records []Record
	if err == nil {
		records, err = a.read(ctx, vhost, queue, members)
	}
	if err != nil {
		return nil, fmt.Errorf("counter: get, queue %q: %w", queue, err)
	}
	slices.SortFunc(records, newestFirst)
	return records, nil
}

func newestFirst(a, b Record) int {
	return cmp.Or(b.LastTime.Compare(a.LastTime), b.OpenSince.Compare(a.OpenSince))
}

// List yields the records of a queue that are failing, running or dead-lettered, the last written first, to the second: the
// newest failure, unless an attempt began since. It omits those that NoteRemoved noted. List reads page by page, so it
// neither blocks the store nor holds the whole list. A record that is written meanwhile moves to the front and may be missed.
// List yields an error once and stops.
func (a *Admin) List(ctx context.Context, vhost, queue string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		at := cursor{max: "+inf"}
		for {
			members, err := a.nextPage(ctx, vhost, queue, &at)
			var records []Record
			if err == nil {
				records, err = a.read(ctx, vhost, queue, members)
			}
			if err != nil {
				yield(Record{}, fmt.Errorf("counter: list, queue %q: %w", queue, err))
				return
			}
			for _, r := range records {
				removed := r.State == StateDeadLetter && !r.Removed.IsZero() // a late step listed it again
				if !removed && !yield(r, nil) {
					return
				}
			}
			if len(members) < page {
				return
			}
		}
	}
}

// cursor walks the index downwards by score, which stays in place while entries move to the front. skip is how many entries of
// the last score were seen.
type cursor struct {
	max  string
	skip int64
}

func (a *Admin) nextPage(ctx context.Context, vhost, queue string, at *cursor) ([]string, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	by := &redis.ZRangeBy{Min: "-inf", Max: at.max, Offset: at.skip, Count: page}
	entries, err := a.rdb.ZRevRangeByScoreWithScores(ctx, a.indexKey(vhost, queue), by).Result()
	if err != nil {
		return nil, a.errorAt(Message{VHost: vhost, Queue: queue}, err)
	}
	members := make([]string, 0, len(entries))
	for _, e := range entries {
		score := fmt.Sprintf("%.0f", e.Score)
		if score != at.max {
			*at = cursor{max: score}
		}
		at.skip++
		if m, ok := e.Member.(string); ok {
			members = append(members, m)
		}
	}
	return members, nil
}

// Forget deletes the records of all generations of an id in a queue, counts and tombstones, and returns how many there were. It
// does not stop an open attempt; if that fails, it is the first one counted in a new record. After an error the records may or
// may not be deleted; it is safe to repeat.
func (a *Admin) Forget(ctx context.Context, vhost, queue, id string) (int, error) {
	members, err := a.generationsOf(ctx, vhost, queue, id)
	if err != nil {
		return 0, fmt.Errorf("counter: forget, queue %q: %w", queue, err)
	}
	q := a.opts.queueKey(vhost, queue)
	var deleted []*redis.IntCmd
	_, err = a.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		for _, m := range members {
			deleted = append(deleted, tx.Del(ctx, q+"r:"+m))
			tx.ZRem(ctx, q+"index", m)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("counter: forget, queue %q: %w: it may or may not be done; list the records, then try again", queue, a.errorAt(Message{VHost: vhost, Queue: queue}, err))
	}
	n := 0
	for _, cmd := range deleted {
		n += int(cmd.Val())
	}
	return n, nil
}

// generationsOf returns the index members of all generations of an id. The first generation needs no search.
func (a *Admin) generationsOf(ctx context.Context, vhost, queue, id string) ([]string, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	members := []string{member(id, "")}
	scan := a.rdb.ZScan(ctx, a.indexKey(vhost, queue), 0, hashID(id)+":*", scanned).Iterator()
	for scan.Next(ctx) {
		if m := scan.Val(); strings.Contains(m, ":") && !slices.Contains(members, m) { // every second value is a score
			members = append(members, m)
		}
	}
	if err := scan.Err(); err != nil {
		return nil, a.errorAt(Message{VHost: vhost, Queue: queue}, err)
	}
	return members, nil
}

// read fetches records by their members, in that order. It omits those that no longer exist.
func (a *Admin) read(ctx context.Context, vhost, queue string, members []string) ([]Record, error) {
	if len(members) == 0 {
		return nil, nil
	}
	q := a.opts.queueKey(vhost, queue)
	texts := make([]*redis.StringCmd, len(members))
	ttls := make([]*redis.DurationCmd, len(members))
	_, _ = a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		for i, m := range members {
			texts[i], ttls[i] = p.Get(ctx, q+"r:"+m), p.PTTL(ctx, q+"r:"+m)
		}
		return nil
	})
	var out []Record
	for i, m := range members {
		text, err := texts[i].Result()
		if err != nil && strings.HasPrefix(err.Error(), wrongType) {
			text, err = "", nil // it is no record either
		}
		switch err = cmp.Or(err, ttls[i].Err()); {
		case errors.Is(err, redis.Nil): // it no longer exists
		case err != nil:
			return nil, a.errorAt(Message{VHost: vhost, Queue: queue}, err)
		default:
			r := parseRecord(Message{VHost: vhost, Queue: queue}, text, max(ttls[i].Val(), 0))
			if r.State == StateForeign {
				r.Key = q + "r:" + m
			}
			out = append(out, r)
		}
	}
	return out, nil
}

func (a *Admin) indexKey(vhost, queue string) string { return a.opts.queueKey(vhost, queue) + "index" }
