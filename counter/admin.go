package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Admin reads and changes what a Counter keeps, for operators and their tools. It is safe for use by many goroutines.
type Admin struct{ *client }

// Admin returns the operators' side of the counter. It uses the counter's client, so it ends with Close.
func (c *Counter) Admin() *Admin { return &Admin{c.client} }

// page is how many records List reads in one round trip.
const page = 200

// Get returns the records of all lives of an id in a queue, newest first; none if nothing is kept of it. What somebody
// else wrote to the key of one is among them, as Foreign. It scans the
// queue's index on the server, a thousand entries a round trip. A life that succeeded within the last ten minutes is
// found only if it was the first.
func (a *Admin) Get(ctx context.Context, vhost, queue, id string) ([]Record, error) {
	members, err := a.lives(ctx, vhost, queue, id)
	if err != nil {
		return nil, fmt.Errorf("counter: get, queue %q: %w", queue, err)
	}
	records, err := a.read(ctx, vhost, queue, members)
	if err != nil {
		return nil, fmt.Errorf("counter: get, queue %q: %w", queue, err)
	}
	slices.SortFunc(records, newestFirst)
	return records, nil
}

func newestFirst(a, b Record) int {
	return cmp.Or(b.LastTime.Compare(a.LastTime), b.OpenSince.Compare(a.OpenSince))
}

// List yields the records of a queue that are failing, running or dead-lettered, the one that was written last first, to
// the second: that is the newest failure, unless an attempt began since. It omits those that AddTaken noted. It
// reads page by page, so it neither blocks the store nor holds the whole list; a record that is written meanwhile moves to
// the front and may be missed. After an error, which it yields once, it stops.
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
				if gone := r.State == StateDeadLetter && !r.Removed.IsZero(); gone { // listed again by a late step
					continue
				}
				if !yield(r, nil) {
					return
				}
			}
			if len(members) < page {
				return
			}
		}
	}
}

// cursor walks the index downwards by score, which stays in place while entries move to the front; skip passes over
// those of the last score that were seen.
type cursor struct {
	max  string
	skip int64
}

func (c *client) nextPage(ctx context.Context, vhost, queue string, at *cursor) ([]string, error) {
	if c.refuse != nil {
		return nil, c.refuse
	}
	index := c.opts.queueKey(vhost, queue) + "index"
	by := &redis.ZRangeBy{Min: "-inf", Max: at.max, Offset: at.skip, Count: page}
	entries, err := c.rdb.ZRevRangeByScoreWithScores(ctx, index, by).Result()
	if err != nil {
		return nil, c.errorAt(Message{VHost: vhost, Queue: queue}, err)
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

// Reset forgets all lives of an id in a queue, charges and tombstone, and returns how many records there were. An attempt
// that runs meanwhile is not stopped; if it fails, its charge is the first of a new record.
func (a *Admin) Forget(ctx context.Context, vhost, queue, id string) (int, error) {
	members, err := a.lives(ctx, vhost, queue, id)
	if err != nil {
		return 0, fmt.Errorf("counter: reset, queue %q: %w", queue, err)
	}
	q := a.opts.queueKey(vhost, queue)
	var gone []*redis.IntCmd
	_, err = a.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		for _, m := range members {
			gone = append(gone, tx.Del(ctx, q+"r:"+m))
			tx.ZRem(ctx, q+"index", m)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("counter: reset, queue %q: %w: it may or may not be done; list the records, then try again", queue, a.errorAt(Message{VHost: vhost, Queue: queue}, err))
	}
	n := 0
	for _, cmd := range gone {
		n += int(cmd.Val())
	}
	return n, nil
}

// scanned is how many members of an index the store passes over in one round trip, which holds it up for 1 to 4 ms.
const scanned = 3000

// lives finds the members of all lives of an id. The first life needs no search.
func (c *client) lives(ctx context.Context, vhost, queue, id string) ([]string, error) {
	if c.refuse != nil {
		return nil, c.refuse
	}
	members := []string{member(id, "")}
	index := c.opts.queueKey(vhost, queue) + "index"
	scan := c.rdb.ZScan(ctx, index, 0, hashID(id)+":*", scanned).Iterator()
	for scan.Next(ctx) {
		if m := scan.Val(); strings.Contains(m, ":") && !slices.Contains(members, m) { // every second value is a score
			members = append(members, m)
		}
	}
	if err := scan.Err(); err != nil {
		return nil, c.errorAt(Message{VHost: vhost, Queue: queue}, err)
	}
	return members, nil
}

// read fetches records by their members, in that order, passing over those that are gone.
func (c *client) read(ctx context.Context, vhost, queue string, members []string) ([]Record, error) {
	if len(members) == 0 {
		return nil, nil
	}
	q := c.opts.queueKey(vhost, queue)
	texts := make([]*redis.StringCmd, len(members))
	ttls := make([]*redis.DurationCmd, len(members))
	_, _ = c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		for i, m := range members {
			texts[i], ttls[i] = p.Get(ctx, q+"r:"+m), p.PTTL(ctx, q+"r:"+m)
		}
		return nil
	})
	var out []Record
	for i, m := range members {
		text, err := texts[i].Result()
		if err != nil && strings.HasPrefix(err.Error(), wrongType) {
			text, err = "", nil // which is no record either
		}
		switch err = cmp.Or(err, ttls[i].Err()); {
		case errors.Is(err, redis.Nil): // it is gone
		case err != nil:
			return nil, c.errorAt(Message{VHost: vhost, Queue: queue}, err)
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
