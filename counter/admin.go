package counter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// scanned is how many members of a set are searched at a time.
const scanned = 3000

// Admin reads and changes the data of a Counter: records, limits and the counts of a queue. It is for operators and
// their tools; no consumer needs it. It is safe for concurrent use. Errors of the store are a *StoreError.
type Admin struct{ *client }

// Now returns the time by the store's clock, which the times of records refer to.
func (a *Admin) Now(ctx context.Context) (time.Time, error) {
	now, _, err := a.store.Load(ctx, Queue{})
	if err != nil {
		return time.Time{}, fmt.Errorf("counter: time: %w", err)
	}
	return now, nil
}

// Get returns the records of all generations of an id in a queue, newest first. The list is empty if the store has no
// record of the id. Get omits a value that another program wrote to a record's key; each step of that message fails.
// Get reads the names in the queue's sets, a few thousand per round trip. A generation that succeeded within the last
// ten minutes, or whose dead letter was replayed or dropped, is found only if it was the first.
func (a *Admin) Get(ctx context.Context, vhost, queue, id string) ([]Record, error) {
	all, err := a.GetAll(ctx, vhost, queue, []string{id})
	return all[id], err
}

// GetAll is Get for several ids. It reads the names in the queue's sets once.
func (a *Admin) GetAll(ctx context.Context, vhost, queue string, ids []string) (map[string][]Record, error) {
	members, err := a.generationsOf(ctx, vhost, queue, ids...)
	var found []*Record
	if err == nil {
		found, err = a.read(ctx, Queue{vhost, queue}, members)
	}
	if err != nil {
		return nil, failed("get", queue, err)
	}
	of := map[string][]Record{} // by the hash of the id, because a record keeps the beginning of a long id
	for i, r := range found {
		if r != nil {
			hash, _, _ := strings.Cut(members[i], ":")
			of[hash] = append(of[hash], *r)
		}
	}
	all := map[string][]Record{}
	for _, id := range ids {
		all[id] = of[hashID(id)]
		slices.SortFunc(all[id], func(a, b Record) int { // the newest first
			return cmp.Or(b.LastTime.Compare(a.LastTime), b.OpenSince.Compare(a.OpenSince))
		})
	}
	return all, nil
}

// generationsOf returns the index members of all generations of ids. The first generations need no search.
func (a *Admin) generationsOf(ctx context.Context, vhost, queue string, ids ...string) (members []string, _ error) {
	wanted := map[string]bool{}
	for _, id := range ids {
		if hash := hashID(id); !wanted[hash] {
			wanted[hash] = true
			members = append(members, member(id, ""))
		}
	}
	for _, set := range []string{setIndex, setDead} {
		for found, err := range a.pages(ctx, Queue{vhost, queue}, set, Entry{}, scanned) {
			if err != nil {
				return nil, err
			}
			for _, e := range found {
				if hash, _, _ := strings.Cut(e.Name, ":"); wanted[hash] && !slices.Contains(members, e.Name) {
					members = append(members, e.Name)
				}
			}
		}
	}
	return members, nil
}

// read fetches records by their members, in that order. It returns nil for one that no longer exists, or that another
// program wrote.
func (a *Admin) read(ctx context.Context, of Queue, members []string) ([]*Record, error) {
	records := make([]*Record, 0, len(members))
	for some := range slices.Chunk(members, page) {
		now, docs, err := a.store.Load(ctx, of, recordsOf(some)...)
		if err != nil {
			return nil, err
		}
		for _, d := range docs {
			r, ok := parseRecord(of, d.Data)
			if !ok {
				records = append(records, nil)
				continue
			}
			if !d.Expires.IsZero() {
				r.TTL = max(d.Expires.Sub(now), 0)
			}
			records = append(records, &r)
		}
	}
	return records, nil
}

// recordsOf are the names of the records of members.
func recordsOf(members []string) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = docRecord(m)
	}
	return names
}
