package deadletter

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/pause"
)

const (
	// watched is how many of the last replayed messages are watched.
	watched = 500
	// checkEvery is the least time between two checks.
	checkEvery = 500 * time.Millisecond
)

// watch finds replayed messages that fail again: the records of their new generations then count failed attempts.
type watch struct {
	records Records // nil: nothing is watched
	vhost   string
	most    int // failures that end the replay; negative: any number

	generations []counter.Message // the last that were replayed and have not failed
	checked     time.Time
	failed      []string
	count       int
}

func (q *Queue) watch(r Replay) *watch {
	w := &watch{records: q.Records, most: cmp.Or(r.StopAfter, defaultStopAfter)}
	if w.most < 0 {
		w.records = nil
	}
	return w
}

// add watches a message that was replayed.
func (w *watch) add(m *Message) {
	if w.records == nil || m.ID == "" {
		return
	}
	if len(w.generations) >= watched {
		w.generations = w.generations[1:]
	}
	w.generations = append(w.generations, counter.Message{Queue: m.Queue, ID: m.ID, Generation: "header:" + m.next})
}

// check looks the records up, unless it has just done so. It returns ErrFailingAgain if too many have failed, or the
// store's error: a replay that cannot be watched must not go on.
func (w *watch) check(ctx context.Context) error {
	if w.records == nil || time.Since(w.checked) < checkEvery {
		return nil
	}
	w.checked = time.Now()
	byQueue := map[string][]counter.Message{}
	for _, g := range w.generations {
		byQueue[g.Queue] = append(byQueue[g.Queue], g)
	}
	w.generations = nil
	for queue, generations := range byQueue {
		records, err := w.records.Lookup(ctx, w.vhost, queue, generations)
		if err != nil {
			return fmt.Errorf("deadletter: checking whether replayed messages fail again: %w", err)
		}
		for _, g := range generations {
			r := records[counter.Message{VHost: w.vhost, Queue: g.Queue, ID: g.ID, Generation: g.Generation}]
			if r.Counted() == 0 && r.State != counter.StateDeadLetter {
				w.generations = append(w.generations, g)
				continue
			}
			w.count++
			if len(w.failed) < maxIDs {
				w.failed = append(w.failed, g.ID)
			}
		}
	}
	if w.count >= w.most {
		return fmt.Errorf("%w: %d so far; repair the cause, then replay the others", ErrFailingAgain, w.count)
	}
	return nil
}

// linger checks once, and then again until the time is over.
func (w *watch) linger(ctx context.Context, long time.Duration) error {
	if w.records == nil {
		return nil
	}
	for end := time.Now().Add(long); ; {
		left := time.Until(end)
		w.checked = time.Time{}
		if err := w.check(ctx); err != nil || len(w.generations) == 0 || left <= 0 {
			return err
		}
		if !pause.For(ctx, min(left, checkEvery)) {
			return ctx.Err()
		}
	}
}
