package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// scanned is how many members of an index the store examines in one round trip, which occupies it for 1 to 4 ms.
const scanned = 3000

// Admin reads and changes the data of a Counter: records, limits and the counts of a queue. It is for operators and
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

// Get returns the records of all generations of an id in a queue, newest first; none if nothing is kept of it. Values
// that another program wrote to a record's key are among them, with StateForeign. Get scans the queue's index on the
// server, a few thousand entries per round trip. A generation that succeeded within the last ten minutes is found only
// if it was the first.
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

// Forget deletes the records of all generations of an id in a queue, counts and tombstones, and returns how many there
// were. It does not stop an open attempt; if that fails, it is the first one counted in a new record. After an error
// the records may or may not be deleted; it is safe to repeat.
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
			tx.ZRem(ctx, q+"dead", m)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("counter: forget, queue %q: %w: it may or may not be done; list the records, then try again",
			queue, a.errorAt(Message{VHost: vhost, Queue: queue}, err))
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
	of := Message{VHost: vhost, Queue: queue}
	k := a.opts.keys(of)
	for _, set := range []string{k.index, k.dead} {
		scan := a.rdb.ZScan(ctx, set, 0, hashID(id)+":*", scanned).Iterator()
		for scan.Next(ctx) {
			if m := scan.Val(); strings.Contains(m, ":") && !slices.Contains(members, m) { // every second value is a score
				members = append(members, m)
			}
		}
		if err := scan.Err(); err != nil {
			return nil, a.errorAt(of, err)
		}
	}
	return members, nil
}

// read fetches records by their members, in that order. It omits those that no longer exist.
func (a *Admin) read(ctx context.Context, vhost, queue string, members []string) (out []Record, err error) {
	err = a.readEach(ctx, vhost, queue, members, func(_ int, r Record) { out = append(out, r) })
	return out, err
}

// readEach is read, and calls f with the index of the member too.
func (a *Admin) readEach(ctx context.Context, vhost, queue string, members []string, f func(int, Record)) error {
	if len(members) == 0 {
		return nil
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
	for i, m := range members {
		text, err := texts[i].Result()
		if err != nil && strings.HasPrefix(err.Error(), wrongType) {
			text, err = "", nil // it is no record either
		}
		switch err = cmp.Or(err, ttls[i].Err()); {
		case errors.Is(err, redis.Nil): // it no longer exists
		case err != nil:
			return a.errorAt(Message{VHost: vhost, Queue: queue}, err)
		default:
			r := parseRecord(Message{VHost: vhost, Queue: queue}, text, max(ttls[i].Val(), 0))
			if r.State == StateForeign {
				r.Key = q + "r:" + m
			}
			f(i, r)
		}
	}
	return nil
}
