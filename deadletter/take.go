package deadletter

import (
	"cmp"
	"context"
)

// taking takes dead letters off the queue: a window at a time, each message once it is stored elsewhere. Replay and
// Drop differ in where that is.
type taking struct {
	q      *Queue
	doing  string // for Progress
	window int

	// first, if not nil, is called once, before the first message is stored. Its error ends the work.
	first func() error
	// store stores a window elsewhere. It returns what may be taken off, and an error if it is the last window.
	store func(ctx context.Context, window []*Message) (stored []*Message, err error)
	// settled, if not nil, is told what is off the queue.
	settled func([]*Message)
	// after, if not nil, follows each window.
	after func(context.Context) error

	source *source
	total  int
	taken  int // from the source
	notes  notes
	result Result
}

// begin opens the source for at most so many messages; zero: all.
func (t *taking) begin(ctx context.Context, f Filter, most int) (err error) {
	if t.source, err = t.q.source(ctx, f, t.window, most); err != nil {
		return err
	}
	t.total = t.source.total
	if most > 0 {
		t.total = min(t.total, most)
	}
	t.notes = notes{records: t.q.Records, vhost: t.source.s.vhost}
	return nil
}

// run takes all, returns the rest to the queue and finishes the notes.
func (t *taking) run(ctx context.Context) error {
	err := t.all(ctx)
	t.notes.finish(ctx)
	t.source.finish(ctx)
	t.result.RecordsErr = t.notes.err
	return err
}

func (t *taking) all(ctx context.Context) error {
	for t.taken < t.total {
		window, err := t.source.next(ctx, min(t.window, t.total-t.taken))
		if err != nil {
			return err
		}
		if len(window) == 0 {
			break
		}
		t.taken += len(window)
		if err := t.one(ctx, window); err != nil {
			return err
		}
		t.notes.send(ctx)
		t.q.progress(t.doing, t.taken, t.total)
		if t.after == nil {
			continue
		}
		if err := t.after(ctx); err != nil {
			return err
		}
	}
	return incomplete(t.q.Name, t.source.gone)
}

// one stores a window and takes off what is stored.
func (t *taking) one(ctx context.Context, window []*Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if first := t.first; first != nil {
		t.first = nil
		if err := first(); err != nil {
			return err
		}
	}
	stored, err := t.store(ctx, window)
	if settleErr := t.source.settle(stored); settleErr != nil {
		t.result.undecided(stored)
		return cmp.Or(err, settleErr)
	}
	t.result.Done += len(stored)
	t.notes.add(stored)
	if t.settled != nil {
		t.settled(stored)
	}
	return err
}
