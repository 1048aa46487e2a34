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
	// noteTime is how long a note may take, also of what was interrupted.
	noteTime = 2 * time.Second
	// mostUnnoted bounds what waits for a store that does not answer.
	mostUnnoted = 10_000
)

// takings notes in the records which counted letters are off the queue. Only
// finish waits for a note; it also repeats those that failed.
type takings struct {
	records Records // nil: nobody counts
	vhost   string

	dead  dead // not noted yet
	begun time.Time

	noting sync.WaitGroup
	mu     sync.Mutex
	busy   bool
	failed dead
	lost   bool  // not all that failed was kept
	err    error // the first; nil again once all is noted
}

// dead are counted letters, by the queue in which they died.
type dead map[string][]counter.Message

func (d dead) size() (n int) {
	for _, all := range d {
		n += len(all)
	}
	return n
}

// add takes letters that were settled.
func (t *takings) add(letters []*Message) {
	for _, l := range letters {
		if t.records == nil || !counted(l) {
			continue
		}
		if t.dead == nil {
			t.dead = dead{}
		}
		t.dead[l.Origin.Queue] = append(t.dead[l.Origin.Queue], counter.Message{ID: l.ID, Generation: l.diedIn})
	}
}

// counted reports whether the count of what was dead-lettered has the letter.
func counted(l *Message) bool { return l.Record != nil && l.Record.State == counter.StateDeadLetter }

// tell begins a note of what there is, unless one is under way or just began.
func (t *takings) tell(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy || len(t.dead) == 0 || time.Since(t.begun) < noteEvery {
		return
	}
	all := t.dead
	t.dead, t.busy, t.begun = nil, true, time.Now()
	t.noting.Go(func() {
		err := t.note(ctx, all)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.busy = false
		if err != nil {
			t.keep(all, err)
		}
	})
}

// finish notes what there is, even if ctx is done, and repeats the notes that failed.
func (t *takings) finish(ctx context.Context) {
	t.noting.Wait()
	if len(t.dead)+len(t.failed) == 0 {
		return
	}
	for queue, more := range t.failed {
		if t.dead == nil {
			t.dead = dead{}
		}
		t.dead[queue] = append(t.dead[queue], more...)
	}
	err := t.note(ctx, t.dead)
	if t.dead, t.failed = nil, nil; err != nil || t.lost {
		t.err = cmp.Or(t.err, err)
		return
	}
	t.err = nil
}

// keep keeps the letters of a note that failed: to repeat it is harmless.
func (t *takings) keep(all dead, err error) {
	t.err = cmp.Or(t.err, err)
	if t.failed == nil {
		t.failed = dead{}
	}
	for queue, more := range all {
		room := min(max(mostUnnoted-t.failed.size(), 0), len(more))
		t.failed[queue] = append(t.failed[queue], more[:room]...)
		t.lost = t.lost || room < len(more)
	}
}

func (t *takings) note(ctx context.Context, all dead) (first error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	for queue, messages := range all {
		if err := t.records.NoteRemoved(ctx, t.vhost, queue, messages); err != nil && first == nil {
			first = err
		}
	}
	return first
}
