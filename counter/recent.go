package counter

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

const (
	recentFor     = time.Second // then the documents of a queue are loaded again
	recentQueues  = 1000
	recentRecords = 1000
	recentSize    = 4096 // bytes of a record; a longer one is loaded each time

	// latestReply is how long a Load may take whose reply tells the time: the store's clock seems late by as much.
	latestReply = 100 * time.Millisecond
)

// recent has the documents that this process loaded or saved last, so that most steps of a busy queue need no Load. It
// may have old ones, because other processes change them too. Save refuses a step that was decided with an old
// document, and the step is taken again after a Load. A step that was decided with recent documents and saves nothing
// is taken again too, because only a Save finds out whether they are old.
type recent struct {
	mu      sync.Mutex
	queues  map[Queue]recentQueue
	records map[recentRecord]Doc
}

// recentQueue has the documents of a queue beside its records, and the clocks of the store and of this process when
// they were loaded.
type recentQueue struct {
	now, loaded time.Time
	about       []Doc
}

type recentRecord struct {
	of   Queue
	name string
}

// aboutQueue are the documents of a queue that each step reads.
var aboutQueue = []string{docLimit, docTombstones, docBreaker}

// recall returns the documents of aboutQueue and then the records of steps, and the time by the store's clock. It loads
// those that are not recent. A fresh message has no record yet.
func (c *client) recall(ctx context.Context, of Queue, some []*taking) (time.Time, []Doc, error) {
	now, docs := c.recent.find(of, some)
	all, names := slices.Clone(aboutQueue), []string(nil)
	for _, t := range some {
		all = append(all, t.record)
	}
	for i, d := range docs {
		if d.Name == "" {
			names = append(names, all[i])
		}
	}
	if len(names) == 0 {
		return now, docs, nil
	}
	asked := time.Now()
	now, loaded, err := c.store.Load(ctx, of, names...)
	if err != nil {
		return now, nil, err
	}
	if names[0] == aboutQueue[0] && time.Since(asked) <= latestReply {
		c.recent.refresh(of, recentQueue{now, time.Now(), slices.Clone(loaded[:len(aboutQueue)])})
	}
	for i := range docs {
		if docs[i].Name == "" {
			docs[i], loaded = loaded[0], loaded[1:]
		}
	}
	return now, docs, nil
}

// find returns the documents of recall. One that must be loaded is empty, without a name.
func (r *recent) find(of Queue, some []*taking) (now time.Time, docs []Doc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	docs = make([]Doc, len(aboutQueue)+len(some))
	q := r.queues[of]
	age := time.Since(q.loaded)
	// After a suspension of the machine only the time of day has gone on.
	wall := time.Now().Round(0).Sub(q.loaded.Round(0))
	known := max(age, wall) <= recentFor && !slices.ContainsFunc(some, func(t *taking) bool { return t.sure })
	if known {
		copy(docs, q.about)
	}
	for i, t := range some {
		d, found := r.records[recentRecord{of, t.record}]
		if !found && t.fresh {
			d, found = Doc{Name: t.record}, true
		}
		if found = found && !t.sure; found {
			docs[len(aboutQueue)+i] = d
		}
		t.recalled = known || found
	}
	return q.now.Add(age), docs
}

func (r *recent) refresh(of Queue, q recentQueue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queues == nil {
		r.queues, r.records = map[Queue]recentQueue{}, map[recentRecord]Doc{}
	}
	makeRoom(r.queues, recentQueues)
	r.queues[of] = q
}

// note keeps the documents of a change that was saved, and forgets those of one that was not. It also forgets the
// record of a dead letter, which is not needed soon.
func (r *recent) note(of Queue, by Change, steps []*taking, saved bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, known := r.queues[of]
	if !known { // nothing of the queue was loaded in time
		return
	}
	q.about = slices.Clone(q.about)
	for _, d := range by.Docs {
		if i := slices.Index(aboutQueue, d.Name); i >= 0 {
			if saved {
				q.about[i] = d
			}
			continue
		}
		at := recentRecord{of, d.Name}
		delete(r.records, at)
		if !saved {
			continue
		}
		if len(d.Data) > recentSize {
			d = Doc{} // it exists, and must be loaded
		}
		makeRoom(r.records, recentRecords)
		r.records[at] = d
	}
	for _, t := range steps {
		if t.reply.Code == rules.ReplyExhausted {
			delete(r.records, recentRecord{of, t.record})
		}
	}
	r.queues[of] = q
}

// makeRoom removes some entries, so that m has fewer than most.
func makeRoom[K comparable, V any](m map[K]V, most int) {
	for k := range m {
		if len(m) < most {
			return
		}
		delete(m, k)
	}
}
