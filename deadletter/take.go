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

	// store stores a window elsewhere. It returns the messages that may be taken off, and an error if it is the last
	// window.
	store func(ctx context.Context, window []*Message) (stored []*Message, err error)
	// after, if not nil, follows each window, and gets its messages that are off the queue.
	after func(context.Context, []*Message) error

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

// finish ends the notes and returns the rest to the queue.
func (t *taking) finish(ctx context.Context) {
	t.notes.finish(ctx)
	t.source.finish(ctx)
	t.result.RecordsErr = t.notes.err
}

// run takes all. The caller calls finish then.
func (t *taking) run(ctx context.Context) error {
	for t.taken < t.total {
		window, err := t.source.next(ctx, min(t.window, t.total-t.taken))
		if err != nil {
			return err
		}
		if len(window) == 0 {
			break
		}
		if err := ctx.Err(); err != nil && !t.source.commits() {
			return err
		}
		t.taken += len(window)
		stored, err := t.store(ctx, window)
		if settleErr := t.source.settle(stored); settleErr != nil {
			t.result.Undecided = remember(t.result.Undecided, stored...)
			return cmp.Or(err, settleErr)
		}
		t.result.Done += len(stored)
		t.notes.add(stored)
		if err != nil {
			return err
		}
		t.notes.send(ctx)
		t.q.progress(t.doing, t.taken, t.total)
		if t.after == nil {
			continue
		}
		if err := t.after(ctx, stored); err != nil {
			return err
		}
	}
	return incomplete(t.q.Name, t.source.gone)
}

// dropWindow is how many dead letters keep gets together.
const dropWindow = picked

// Drop takes the dead letters that the filter picks off the queue, in their order; if most is positive, at most so
// many. It first passes them to keep, several together, and takes them off once keep has returned nil: keep must have
// stored them by then. After a failure, or if the process is killed, the last that keep received may still be in the
// queue, 16 at most.
func (q *Queue) Drop(ctx context.Context, f Filter, most int, keep func([]*Message) error) (Result, error) {
	if err := q.validate(); err != nil {
		return Result{}, err
	}
	t := &taking{q: q, doing: "dropping", window: dropWindow}
	t.store = func(_ context.Context, window []*Message) ([]*Message, error) {
		if err := keep(window); err != nil {
			return nil, err
		}
		return window, nil
	}
	if err := t.begin(ctx, f, most); err != nil {
		return Result{}, err
	}
	err := t.run(ctx)
	t.finish(ctx)
	return t.result, err
}

// Result of a Replay or a Drop. Each list holds up to 1000 ids; a dead letter without an id is listed by its
// Fingerprint.
type Result struct {
	Done int // replayed or dropped, and off the dead-letter queue
	Left int // of a Replay: still dead letters, because they cannot be published or the replay of everything ended early

	// Undecided messages may or may not be published, or are published and may still be in the dead-letter queue: one
	// window at most.
	Undecided []string

	// FailedAgain are the replayed messages that have failed since.
	FailedAgain []string

	// RecordsErr is the first error of Records.NoteRemoved, nil if all was noted in the end. The dead letters are off the
	// queue, but their records may not say so.
	RecordsErr error
}

// maxIDs bounds the lists of a Result.
const maxIDs = 1000

func remember(ids []string, messages ...*Message) []string {
	for _, m := range messages[:min(len(messages), maxIDs-len(ids))] {
		ids = append(ids, m.Name())
	}
	return ids
}
