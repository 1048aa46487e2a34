package deadletter

import (
	"cmp"
	"context"
	"time"

	"github.com/strikesmq/strikes/counter"
)

const (
	// noteEvery is the least time between two notes.
	noteEvery = 100 * time.Millisecond
	// noteTime is how long a note may take, also after an interruption.
	noteTime = 2 * time.Second
	// mostUnnoted is the most removals that wait for a store that does not answer.
	mostUnnoted = 10_000
)

// notes notes in the records which dead letters are off the queue. Only finish waits for a note. After a note that
// failed, finish makes the next one.
type notes struct {
	records Records // nil: none
	vhost   string

	removed []counter.Message // not noted yet
	noting  []counter.Message // in the note under way
	done    chan error        // of the note under way; nil: there is none
	begun   time.Time         // when that began
	lost    bool              // not all that failed was kept
	err     error             // the first; nil again once all is noted
}

// add takes messages that are off the queue. It ignores those without a tombstone.
func (n *notes) add(messages []*Message) {
	for _, m := range messages {
		if n.records == nil || m.Record == nil || m.Record.State != counter.StateDeadLetter {
			continue
		}
		if n.err != nil && len(n.removed) >= mostUnnoted {
			n.lost = true
			return
		}
		n.removed = append(n.removed, counter.Message{Queue: m.Queue, ID: m.ID, Generation: m.diedIn})
	}
}

// send begins a note in the background, unless one is under way or has just begun.
func (n *notes) send(ctx context.Context) {
	select {
	case err := <-n.done:
		n.ended(err)
	default:
	}
	if n.done == nil && n.err == nil && len(n.removed) > 0 && time.Since(n.begun) >= noteEvery {
		n.begin(ctx)
	}
}

// finish notes the rest, and repeats the notes that failed, even if ctx is done. Repeating a note is harmless.
func (n *notes) finish(ctx context.Context) {
	if n.done != nil {
		n.ended(<-n.done)
	}
	if len(n.removed) == 0 {
		return
	}
	n.begin(ctx)
	err := <-n.done
	if n.ended(err); err == nil && !n.lost {
		n.err = nil
	}
}

func (n *notes) begin(ctx context.Context) {
	all, done := n.removed, make(chan error, 1)
	n.removed, n.noting, n.done, n.begun = nil, all, done, time.Now()
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
		defer cancel()
		byQueue := map[string][]counter.Message{}
		for _, m := range all {
			byQueue[m.Queue] = append(byQueue[m.Queue], m)
		}
		var first error
		for queue, messages := range byQueue {
			first = cmp.Or(first, n.records.NoteRemoved(ctx, n.vhost, queue, messages))
		}
		done <- first
	}()
}

// ended keeps the messages of a note that failed.
func (n *notes) ended(err error) {
	if n.done = nil; err != nil {
		n.err, n.removed = cmp.Or(n.err, err), append(n.noting, n.removed...)
	}
	n.noting = nil
}
