package deadletter

import (
	"context"
	"time"

	"github.com/strikesmq/strikes/counter"
)

const (
	// noteEvery is the least time between two notes.
	noteEvery = 100 * time.Millisecond
	// noteTime is how long a note may take, also of what was interrupted.
	noteTime = 2 * time.Second
)

// takings tells the records of counted letters that are off the queue. What a
// note that fails was about is not told again.
type takings struct {
	records Records // nil: nobody counts
	vhost   string

	dead  map[string][]counter.Message // not noted yet, by the queue in which they died
	noted time.Time
	err   error // the first
}

// add takes letters that were settled.
func (t *takings) add(letters []*Letter) {
	for _, l := range letters {
		if !counted(l) {
			continue
		}
		if t.dead == nil {
			t.dead = map[string][]counter.Message{}
		}
		t.dead[l.Origin.Queue] = append(t.dead[l.Origin.Queue], counter.Message{ID: l.ID, Life: l.diedIn})
	}
}

// counted reports whether the count of what was dead-lettered has the letter.
func counted(l *Letter) bool { return l.Record != nil && l.Record.State == counter.DeadLetter }

// tell notes what there is, if it has not done so a moment ago.
func (t *takings) tell(ctx context.Context) {
	if time.Since(t.noted) >= noteEvery {
		t.finish(ctx)
	}
}

// finish notes what there is, though ctx be done.
func (t *takings) finish(ctx context.Context) {
	if t.records == nil || len(t.dead) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	for queue, dead := range t.dead {
		if err := t.records.AddTaken(ctx, t.vhost, queue, dead); err != nil && t.err == nil {
			t.err = err
		}
	}
	t.dead, t.noted = nil, time.Now()
}
