package counter

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// page is how many records a list reads in one round trip.
const page = 200

// List yields the records of a queue that are failing, running or dead-lettered, the last written first, to the second:
// the newest failure, unless an attempt began since. It omits those that NoteRemoved noted. List reads page by page, so
// it neither blocks the store nor holds the whole list. A record that is written meanwhile moves to the front and may
// be missed. List yields an error once and stops.
func (a *Admin) List(ctx context.Context, vhost, queue string) iter.Seq2[Record, error] {
	k := a.opts.keys(Message{VHost: vhost, Queue: queue})
	return a.list(ctx, vhost, queue, &walk{key: k.index}, &walk{key: k.dead, dead: true})
}

// Live is List without the dead-lettered records.
func (a *Admin) Live(ctx context.Context, vhost, queue string) iter.Seq2[Record, error] {
	return a.list(ctx, vhost, queue, &walk{key: a.opts.keys(Message{VHost: vhost, Queue: queue}).index})
}

func (a *Admin) list(ctx context.Context, vhost, queue string, walks ...*walk) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for more := true; more; {
			var records []Record
			var err error
			records, more, err = a.nextPage(ctx, vhost, queue, walks)
			if err != nil {
				yield(Record{}, fmt.Errorf("counter: list, queue %q: %w", queue, err))
				return
			}
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// nextPage reads the next records of all walks; more reports whether others may follow.
func (a *Admin) nextPage(ctx context.Context, vhost, queue string, walks []*walk) (records []Record, more bool,
	err error) {
	entries, err := a.newest(ctx, walks)
	if err != nil {
		return nil, false, a.listError(vhost, queue, err)
	}
	members := make([]string, len(entries))
	for i, e := range entries {
		members[i] = e.member
	}
	err = a.readEach(ctx, vhost, queue, members, func(i int, r Record) {
		// else the entry is of an expired record
		if r.State == StateForeign || entries[i].dead == (r.State == StateDeadLetter) {
			records = append(records, r)
		}
	})
	return records, len(entries) == page, err
}

// Dead is a tombstone with a dead letter that was not removed.
type Dead struct {
	Record        // without TTL
	After  string // as the argument of Admin.Dead it continues the list after this one
}

// Dead yields the tombstones of a queue with dead letters that were not removed, the newest first; after is empty, or
// the After of the last one seen. A tombstone that is renewed because its message cannot leave the queue moves to the
// front. Dead reads page by page, and no other records. It yields an error once and stops.
func (a *Admin) Dead(ctx context.Context, vhost, queue, after string) iter.Seq2[Dead, error] {
	return func(yield func(Dead, error) bool) {
		w, err := walkAfter(a.opts.keys(Message{VHost: vhost, Queue: queue}).dead, after)
		for size := page / 4; ; size = min(size*2, 5*page) {
			var dead []Dead
			more := false
			if err == nil {
				dead, more, err = a.deadPage(ctx, vhost, queue, w, size)
			}
			if err != nil {
				yield(Dead{}, fmt.Errorf("counter: dead, queue %q: %w", queue, err))
				return
			}
			for _, d := range dead {
				if !yield(d, nil) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// deadPage reads the next tombstones; more reports whether others may follow.
func (a *Admin) deadPage(ctx context.Context, vhost, queue string, w *walk, size int) (dead []Dead, more bool,
	err error) {
	entries, err := a.fill(ctx, w, size)
	if err != nil || len(entries) == 0 {
		return nil, false, a.listError(vhost, queue, err)
	}
	texts, err := a.rdb.MGet(ctx, a.recordKeys(vhost, queue, entries)...).Result()
	if err != nil {
		return nil, false, a.listError(vhost, queue, err)
	}
	for i, v := range texts {
		text, _ := v.(string) // else it no longer exists
		if r := parseRecord(Message{VHost: vhost, Queue: queue}, text, 0); r.State == StateDeadLetter {
			dead = append(dead, Dead{r, entries[i].place()})
		}
	}
	return dead, len(entries) == size, nil
}

func (a *Admin) recordKeys(vhost, queue string, entries []listed) []string {
	prefix := a.opts.queueKey(vhost, queue) + "r:"
	keys := make([]string, len(entries))
	for i, e := range entries {
		keys[i] = prefix + e.member
	}
	return keys
}

// CountDead returns how many tombstones Dead yields.
func (a *Admin) CountDead(ctx context.Context, vhost, queue string) (int, error) {
	if a.refuse != nil {
		return 0, a.refuse
	}
	n, err := a.rdb.ZCount(ctx, a.opts.keys(Message{VHost: vhost, Queue: queue}).dead,
		strconv.FormatInt(time.Now().UnixMilli(), 10), "+inf").Result()
	if err != nil {
		return 0, fmt.Errorf("counter: count dead, queue %q: %w", queue, a.listError(vhost, queue, err))
	}
	return int(n), nil
}

func (a *Admin) listError(vhost, queue string, err error) error {
	if err == nil || a.refuse != nil {
		return err
	}
	return a.errorAt(Message{VHost: vhost, Queue: queue}, err)
}

// listed is a member of a sorted set of records, and its score.
type listed struct {
	member string
	score  int64
	dead   bool // the set is that of the tombstones
}

func (l listed) place() string { return fmt.Sprintf("%d-%s", l.score, l.member) }

// walk goes through a sorted set downwards by score, which stays in place while entries move to the front.
type walk struct {
	key   string
	dead  bool
	last  listed // seen; zero: none
	skip  int64  // entries of the last score that were seen
	ahead []listed
	ended bool
}

// walkAfter begins after a place among the tombstones.
func walkAfter(key, after string) (*walk, error) {
	w := &walk{key: key, dead: true}
	if after == "" {
		return w, nil
	}
	score, member, ok := strings.Cut(after, "-")
	n, err := strconv.ParseInt(score, 10, 64)
	if !ok || err != nil {
		return nil, fmt.Errorf("place in the list: got %.80q, want the After of a dead-lettered record", after)
	}
	w.last = listed{member: member, score: n}
	return w, nil
}

// fill returns the next entries, size of them unless the set ends.
func (a *Admin) fill(ctx context.Context, w *walk, size int) ([]listed, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	highest, from := "+inf", w.last
	if from.member != "" {
		highest = strconv.FormatInt(from.score, 10)
	}
	var out []listed
	for len(out) < size {
		by := &redis.ZRangeBy{Min: "-inf", Max: highest, Offset: w.skip, Count: int64(size - len(out))}
		entries, err := a.rdb.ZRevRangeByScoreWithScores(ctx, w.key, by).Result()
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			member, _ := e.Member.(string)
			next := listed{member, int64(e.Score), w.dead}
			if next.score != w.last.score {
				w.skip = 0
			}
			w.skip++
			w.last = next
			if next.score != from.score || next.member < from.member { // else it comes before the place
				out = append(out, next)
			}
		}
		if len(entries) == 0 {
			break
		}
		highest = strconv.FormatInt(w.last.score, 10)
	}
	return out, nil
}

// newest returns a page of the entries of all walks, the highest scores first.
func (a *Admin) newest(ctx context.Context, walks []*walk) (out []listed, err error) {
	for len(out) < page {
		var next *walk
		for _, w := range walks {
			if len(w.ahead) == 0 && !w.ended {
				if w.ahead, err = a.fill(ctx, w, page); err != nil {
					return nil, err
				}
				w.ended = len(w.ahead) < page
			}
			if len(w.ahead) > 0 && (next == nil || w.ahead[0].score > next.ahead[0].score) {
				next = w
			}
		}
		if next == nil {
			break
		}
		out, next.ahead = append(out, next.ahead[0]), next.ahead[1:]
	}
	return out, nil
}
