package deadletter

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/strikesmq/strikes/counter"
)

const (
	// noteEvery is the least time between two notes.
	noteEvery = 100 * time.Millisecond
	// noteTime is how long a note may take, also after an interruption.
	noteTime = 2 * time.Second
	// mostUnnoted bounds what waits for a store that does not answer.
	mostUnnoted = 10_000
)

// notes notes in the records which dead letters are off the queue. Only finish waits for a note; it also repeats failed
// ones.
type notes struct {
	records Records // nil: none
	vhost   string

	removed byQueue // not noted yet
	begun   time.Time

	noting sync.WaitGroup
	mu     sync.Mutex
	busy   bool
	failed byQueue
	lost   bool  // not all that failed was kept
	err    error // the first; nil again once all is noted
}

// byQueue holds recorded messages by the queue in which they died.
type byQueue map[string][]counter.Message

func (q byQueue) size() (n int) {
	for _, all := range q {
		n += len(all)
	}
	return n
}

// add takes messages that are off the queue. It ignores those without a tombstone.
func (n *notes) add(messages []*Message) {
	for _, m := range messages {
		if n.records == nil || m.Record == nil || m.Record.State != counter.StateDeadLetter {
			continue
		}
		if n.removed == nil {
			n.removed = byQueue{}
		}
		n.removed[m.Queue] = append(n.removed[m.Queue], counter.Message{ID: m.ID, Generation: m.diedIn})
	}
}

// send begins a note in the background, unless one is under way or has just begun.
func (n *notes) send(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy || len(n.removed) == 0 || time.Since(n.begun) < noteEvery {
		return
	}
	all := n.removed
	n.removed, n.busy, n.begun = nil, true, time.Now()
	n.noting.Go(func() {
		err := n.note(ctx, all)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.busy = false
		if err != nil {
			n.keep(all, err)
		}
	})
}

// finish notes the rest, even if ctx is done, and repeats the notes that failed.
func (n *notes) finish(ctx context.Context) {
	n.noting.Wait()
	if len(n.removed)+len(n.failed) == 0 {
		return
	}
	for queue, more := range n.failed {
		if n.removed == nil {
			n.removed = byQueue{}
		}
		n.removed[queue] = append(n.removed[queue], more...)
	}
	err := n.note(ctx, n.removed)
	if n.removed, n.failed = nil, nil; err != nil || n.lost {
		n.err = cmp.Or(n.err, err)
		return
	}
	n.err = nil
}

// keep keeps the messages of a note that failed. Repeating a note is harmless.
func (n *notes) keep(all byQueue, err error) {
	n.err = cmp.Or(n.err, err)
	if n.failed == nil {
		n.failed = byQueue{}
	}
	for queue, more := range all {
		room := min(max(mostUnnoted-n.failed.size(), 0), len(more))
		n.failed[queue] = append(n.failed[queue], more[:room]...)
		n.lost = n.lost || room < len(more)
	}
}

func (n *notes) note(ctx context.Context, all byQueue) (first error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	for queue, messages := range all {
		first = cmp.Or(first, n.records.NoteRemoved(ctx, n.vhost, queue, messages))
	}
	return first
}
