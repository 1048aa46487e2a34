package counter

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
)

// page is how many records a list reads in one round trip.
const page = 200

// List yields the records of a queue that are failing, running or dead-lettered, the last written first, to the second:
// the newest failure, unless an attempt began since. It omits those that NoteRemoved noted. List reads page by page, so
// it neither blocks the store nor holds the whole list. A record that is written meanwhile moves to the front and may
// be missed. List yields an error once and stops.
func (a *Admin) List(ctx context.Context, vhost, queue string) iter.Seq2[Record, error] {
	return a.list(ctx, vhost, queue, &walk{set: setIndex}, &walk{set: setDead})
}

// Live is List without the dead-lettered records.
func (a *Admin) Live(ctx context.Context, vhost, queue string) iter.Seq2[Record, error] {
	return a.list(ctx, vhost, queue, &walk{set: setIndex})
}

func (a *Admin) list(ctx context.Context, vhost, queue string, walks ...*walk) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for more := true; more; {
			var records []Record
			var err error
			records, more, err = a.nextPage(ctx, vhost, queue, walks)
			if err != nil {
				yield(Record{}, failed("list", queue, err))
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
	entries, err := a.newest(ctx, Queue{vhost, queue}, walks)
	if err != nil {
		return nil, false, err
	}
	members := make([]string, len(entries))
	for i, e := range entries {
		members[i] = e.Name
	}
	err = a.readEach(ctx, vhost, queue, members, func(i int, r Record) {
		// else the entry is of an expired record
		if r.State == StateForeign || (entries[i].set == setDead) == (r.State == StateDeadLetter) {
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
		w, err := walkAfter(after)
		for size := page / 4; ; size = min(size*2, 5*page) {
			var dead []Dead
			more := false
			if err == nil {
				dead, more, err = a.deadPage(ctx, Queue{vhost, queue}, w, size)
			}
			if err != nil {
				yield(Dead{}, failed("dead", queue, err))
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
func (a *Admin) deadPage(ctx context.Context, of Queue, w *walk, size int) (dead []Dead, more bool, err error) {
	entries, texts, err := a.deadTexts(ctx, of, w, size)
	for i, text := range texts {
		if r := parseRecord(Message{VHost: of.VHost, Queue: of.Name}, text, 0); r.State == StateDeadLetter {
			dead = append(dead, Dead{r, placeOf(entries[i])})
		}
	}
	return dead, len(entries) == size, err
}

// deadTexts reads the next tombstones without decoding them. If it returns fewer than size, the list has ended.
func (a *Admin) deadTexts(ctx context.Context, of Queue, w *walk, size int) (entries []Entry, texts []string,
	err error) {
	if entries, err = a.fill(ctx, of, w, size); len(entries) > 0 && err == nil {
		texts, err = a.store.Read(ctx, of, w.set, entries)
	}
	return entries, texts, err
}

// CountDead returns how many tombstones Dead yields.
func (a *Admin) CountDead(ctx context.Context, vhost, queue string) (int, error) {
	n, err := a.count(ctx, Queue{vhost, queue}, setDead, time.Now().UnixMilli())
	return n, failed("count dead", queue, err)
}

func placeOf(e Entry) string { return fmt.Sprintf("%d-%s", e.Score, e.Name) }

// listed is an entry of a set of records.
type listed struct {
	Entry
	set string
}

// walk goes through a set downwards by score, which stays in place while entries move to the front.
type walk struct {
	set   string
	last  Entry // seen; zero: none
	ahead []Entry
	ended bool
}

// walkAfter begins after a place among the tombstones.
func walkAfter(after string) (*walk, error) {
	w := &walk{set: setDead}
	if after == "" {
		return w, nil
	}
	score, name, ok := strings.Cut(after, "-")
	n, err := strconv.ParseInt(score, 10, 64)
	if !ok || err != nil {
		return nil, fmt.Errorf("place in the list: got %.80q, want the After of a dead-lettered record", after)
	}
	w.last = Entry{Name: name, Score: n}
	return w, nil
}

// fill returns the next entries, size of them unless the set ends.
func (a *Admin) fill(ctx context.Context, of Queue, w *walk, size int) ([]Entry, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	found, err := a.store.Page(ctx, of, w.set, w.last, size)
	if len(found) > 0 {
		w.last = found[len(found)-1]
	}
	return found, err
}

// newest returns a page of the entries of all walks, the highest scores first.
func (a *Admin) newest(ctx context.Context, of Queue, walks []*walk) (out []listed, err error) {
	for len(out) < page {
		var next *walk
		for _, w := range walks {
			if len(w.ahead) == 0 && !w.ended {
				if w.ahead, err = a.fill(ctx, of, w, page); err != nil {
					return nil, err
				}
				w.ended = len(w.ahead) < page
			}
			if len(w.ahead) > 0 && (next == nil || w.ahead[0].Score > next.ahead[0].Score) {
				next = w
			}
		}
		if next == nil {
			break
		}
		out, next.ahead = append(out, listed{next.ahead[0], next.set}), next.ahead[1:]
	}
	return out, nil
}
