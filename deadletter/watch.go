package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/counter"
)

const (
	// watched is how many of the replayed messages, the last ones, are watched.
	watched = 500
	// lookEvery is the least time between two looks.
	lookEvery = 500 * time.Millisecond
)

// watch finds out whether replayed messages fail again: their new lives then
// have records with charges.
type watch struct {
	records Records // nil: it sees nothing
	vhost   string
	target  *Target
	most    int // failures that end the replay; negative: any number

	lives  []counter.Message // the last that were replayed and have not failed
	looked time.Time
	failed []string
	count  int
}

func (q *Queue) watch(r Replay) *watch {
	w := &watch{records: q.Records, target: r.Target, most: r.StopAfter}
	if w.most == 0 {
		w.most = defaultStopAfter
	}
	if r.Target != nil && r.Target.Exchange != "" || w.most < 0 {
		w.records = nil
	}
	return w
}

// add watches a message that was replayed.
func (w *watch) add(l *Message) {
	to, err := w.target.destination(l)
	if w.records == nil || err != nil || l.ID == "" {
		return
	}
	if len(w.lives) >= watched {
		w.lives = w.lives[1:]
	}
	w.lives = append(w.lives, counter.Message{Queue: to.Key, ID: l.ID, Generation: "header:" + l.life})
}

// look asks, if it has not done so a moment ago. It returns ErrFailingAgain if
// too many have failed, or the store's error: what cannot be watched must not go
// on.
func (w *watch) look(ctx context.Context) error {
	if w.records == nil || time.Since(w.looked) < lookEvery {
		return nil
	}
	w.looked = time.Now()
	byQueue := map[string][]counter.Message{}
	for _, m := range w.lives {
		byQueue[m.Queue] = append(byQueue[m.Queue], m)
	}
	w.lives = nil
	for queue, lives := range byQueue {
		records, err := w.records.Lookup(ctx, w.vhost, queue, lives)
		if err != nil {
			return fmt.Errorf("deadletter: whether replayed messages fail again cannot be seen: %w", err)
		}
		w.sort(lives, records)
	}
	if w.count >= w.most {
		return fmt.Errorf("%w: %d of those that were replayed have", ErrFailingAgain, w.count)
	}
	return nil
}

// sort tells those that have failed from those to be watched further.
func (w *watch) sort(lives []counter.Message, records map[counter.Message]counter.Record) {
	for _, m := range lives {
		r := records[counter.Message{VHost: w.vhost, Queue: m.Queue, ID: m.ID, Generation: m.Generation}]
		if r.Counted() == 0 && r.State != counter.StateDeadLetter {
			w.lives = append(w.lives, m)
			continue
		}
		w.count++
		if len(w.failed) < maxIDs {
			w.failed = append(w.failed, m.ID)
		}
	}
}

// linger looks once, and then again until the time is over.
func (w *watch) linger(ctx context.Context, long time.Duration) error {
	if w.records == nil {
		return nil
	}
	end := time.NewTimer(long)
	defer end.Stop()
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		w.looked = time.Time{}
		if err := w.look(ctx); err != nil {
			return err
		}
		if len(w.lives) == 0 {
			return nil
		}
		select {
		case <-end.C:
			w.looked = time.Time{}
			return w.look(ctx)
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
