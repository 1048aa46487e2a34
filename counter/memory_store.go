package counter

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// memoryStore is a Store in this process alone.
type memoryStore struct {
	mu     sync.Mutex
	queues map[Queue]*memoryQueue
}

type memoryQueue struct {
	docs map[string]Doc
	sets map[string]map[string]int64 // the scores of the members
}

func newMemoryStore() *memoryStore { return &memoryStore{queues: map[Queue]*memoryQueue{}} }

// queue returns the documents and sets of a queue. The caller holds mu.
func (m *memoryStore) queue(of Queue) *memoryQueue {
	if m.queues[of] == nil {
		m.queues[of] = &memoryQueue{map[string]Doc{}, map[string]map[string]int64{}}
	}
	return m.queues[of]
}

func (m *memoryStore) Load(ctx context.Context, of Queue, names ...string) (time.Time, []Doc, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	q, now := m.queue(of), time.Now().UTC()
	docs := make([]Doc, len(names))
	for i, name := range names {
		docs[i] = q.doc(name, now)
	}
	return now, docs, nil
}

func (m *memoryStore) Read(ctx context.Context, of Queue, _ string, page []Entry) ([]string, error) {
	data := make([]string, len(page))
	for i, e := range page {
		_, docs, err := m.Load(ctx, of, e.Record())
		if err != nil {
			return nil, err
		}
		data[i] = docs[0].Data
	}
	return data, nil
}

// doc returns a document. Its Version is its Data: a document that is as it was may be replaced.
func (q *memoryQueue) doc(name string, now time.Time) Doc {
	d, exists := q.docs[name]
	if !exists || !d.Expires.IsZero() && !now.Before(d.Expires) {
		return Doc{Name: name}
	}
	d.Version = d.Data
	return d
}

func (m *memoryStore) Save(ctx context.Context, of Queue, c Change) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	q, now := m.queue(of), time.Now()
	differs := func(d Doc) bool { return !d.Any && q.doc(d.Name, now).Data != d.Version }
	if slices.ContainsFunc(c.Docs, differs) || slices.ContainsFunc(c.Same, differs) {
		return false, nil
	}
	q.save(c, now)
	versioned(c.Docs)
	return true, nil
}

// versioned sets the Version of documents that a Save wrote to their Data.
func versioned(docs []Doc) {
	for i := range docs {
		docs[i].Version = docs[i].Data
	}
}

func (q *memoryQueue) save(c Change, now time.Time) {
	for _, d := range c.Docs {
		q.docs[d.Name] = Doc{Name: d.Name, Data: d.Data, Expires: d.Expires}
		if d.Data == "" {
			delete(q.docs, d.Name)
		}
	}
	for _, s := range c.Add {
		d := q.doc(s.Doc, now)
		if d.Data == "" || !d.Expires.IsZero() && d.Expires.Before(s.Expires) {
			d.Expires = s.Expires
		}
		q.docs[s.Doc] = Doc{Name: s.Doc, Data: AddTo(d.Data, s), Expires: d.Expires}
	}
	for _, e := range c.Sets {
		if e.Name == "" {
			continue
		}
		if q.sets[e.Set] == nil {
			q.sets[e.Set] = map[string]int64{}
		}
		if q.sets[e.Set][e.Name] = e.Score; e.Gone {
			delete(q.sets[e.Set], e.Name)
		}
	}
}

// fromHighest is the order of a Page.
func fromHighest(a, b Entry) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(b.Name, a.Name))
}

// set returns a set in the order of a Page. The caller holds mu.
func (m *memoryStore) set(of Queue, name string) (sorted []Entry) {
	for member, score := range m.queue(of).sets[name] {
		sorted = append(sorted, Entry{member, score})
	}
	slices.SortFunc(sorted, fromHighest)
	return sorted
}

func (m *memoryStore) Page(ctx context.Context, of Queue, set string, after Entry, n int) ([]Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all, from := m.set(of, set), 0
	if after != (Entry{}) {
		at, found := slices.BinarySearchFunc(all, after, fromHighest)
		if from = at; found {
			from++
		}
	}
	return slices.Clone(all[from:min(from+n, len(all))]), nil
}

func (m *memoryStore) Count(ctx context.Context, of Queue, set string, from int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, _ := slices.BinarySearchFunc(m.set(of, set), from, func(e Entry, from int64) int {
		if e.Score >= from {
			return -1
		}
		return 1
	})
	return n, nil
}

func (m *memoryStore) Examine(context.Context) ([]Finding, error) { return nil, nil }

func (m *memoryStore) Close() error { return nil }
