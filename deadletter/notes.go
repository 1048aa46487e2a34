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
)

// notes notes in the records which dead letters are off the queue. After a note that failed, finish makes the next one.
type notes struct {
	records Records // nil: none
	vhost   string

	removed []counter.Message // not noted yet
	noted   time.Time         // when the last note ended
	err     error             // the first; nil again once all is noted
}

// add takes messages that are off the queue. It ignores those without a tombstone.
func (n *notes) add(messages []*Message) {
	for _, m := range messages {
		if n.records == nil || m.Record == nil || m.Record.State != counter.StateDeadLetter {
			continue
		}
		n.removed = append(n.removed, counter.Message{Queue: m.Queue, ID: m.ID, Generation: m.diedIn})
	}
}

// send notes the removals, unless the last note was a moment ago, or one failed.
func (n *notes) send(ctx context.Context) {
	if n.err == nil && len(n.removed) > 0 && time.Since(n.noted) >= noteEvery {
		n.err = n.note(ctx)
	}
}

// finish notes the rest, and repeats the note that failed, even if ctx is done. Repeating a note is harmless.
func (n *notes) finish(ctx context.Context) {
	if len(n.removed) == 0 {
		return
	}
	if err := n.note(ctx); err == nil || n.err == nil {
		n.err = err
	}
}

func (n *notes) note(ctx context.Context) (first error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	byQueue := map[string][]counter.Message{}
	for _, m := range n.removed {
		byQueue[m.Queue] = append(byQueue[m.Queue], m)
	}
	for queue, messages := range byQueue {
		first = cmp.Or(first, n.records.NoteRemoved(ctx, n.vhost, queue, messages))
	}
	if n.noted = time.Now(); first == nil {
		n.removed = nil
	}
	return first
}
