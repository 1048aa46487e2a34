package records

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/pause"
)

// Pause is the pause of a queue, or what an operator is about to change of it.
type Pause struct {
	VHost string `json:"vhost"`
	Queue string `json:"queue"`
	Note
	Paused    bool       `json:"paused"`           // once Done
	Before    bool       `json:"before,omitempty"` // it was so before: nothing is done
	Done      bool       `json:"done"`
	Consumers []Consumer `json:"consumers,omitempty"` // processes that consume the queue

	why counter.Note
}

// Consumer is a process that consumes a queue.
type Consumer struct {
	Consumer string        `json:"consumer"`
	Stopped  bool          `json:"stopped"` // it takes no deliveries and holds none
	Seen     time.Time     `json:"seen"`    // when it last read whether the queue is paused
	Ago      time.Duration `json:"-"`       // since then
}

// PlanPause finds whether the queue is paused already, by whom and why.
func (q *Queue) PlanPause(ctx context.Context, why counter.Note) (Pause, error) {
	p := Pause{VHost: q.VHost, Queue: q.Name, Paused: true, Note: NoteOf(why), why: why}
	paused, err := q.Store.Paused(ctx, q.VHost, q.Name)
	if err != nil || paused == nil {
		return p, err
	}
	holding, err := q.Store.Holding(ctx, q.VHost, q.Name)
	if holding == nil || !holding.Only { // else the pause becomes the operator's
		p.Before, p.Note = true, NoteOf(*paused)
	}
	return p, err
}

// PlanResume finds the pause that a resume ends. The error wraps ErrNone if the queue is not paused.
func (q *Queue) PlanResume(ctx context.Context, why counter.Note) (Pause, error) {
	paused, err := q.Store.Paused(ctx, q.VHost, q.Name)
	switch {
	case err != nil:
		return Pause{}, err
	case paused == nil:
		return Pause{}, noneError{fmt.Sprintf("queue %q in virtual host %q is not paused", q.Name, q.VHost)}
	}
	return Pause{VHost: q.VHost, Queue: q.Name, Note: NoteOf(*paused), why: why}, nil
}

// ChangePause carries out a plan. What another operator has done meanwhile is done.
func (q *Queue) ChangePause(ctx context.Context, p *Pause) error {
	if p.Before {
		p.Done = true
		return nil
	}
	verb, change, already := VerbPause, q.Store.Pause, counter.ErrPaused
	if !p.Paused {
		verb, change, already = VerbResume, q.Store.Resume, counter.ErrNotPaused
	}
	err := change(ctx, q.VHost, q.Name, p.why)
	if errors.Is(err, already) {
		p.Before, p.Done = true, true
		return nil
	}
	q.Audit(ctx, entryOf(verb, "", p.why, 0), err)
	p.Done = err == nil
	return err
}

// Stopping waits until all consumers of a paused queue have stopped, or a time is over, and returns them.
func (q *Queue) Stopping(ctx context.Context, patience time.Duration) ([]Consumer, error) {
	for until := time.Now().Add(patience); ; {
		all, err := q.Consumers(ctx)
		if err != nil || !StillRunning(all) || !time.Now().Before(until) || !pause.For(ctx, 100*time.Millisecond) {
			return all, err
		}
	}
}

// StillRunning reports whether one of the consumers has not stopped.
func StillRunning(all []Consumer) bool {
	for _, c := range all {
		if !c.Stopped {
			return true
		}
	}
	return false
}

// Consumers returns the processes that consume the queue.
func (q *Queue) Consumers(ctx context.Context) ([]Consumer, error) {
	states, err := q.Store.Consumers(ctx, q.VHost, q.Name)
	if err != nil || len(states) == 0 {
		return nil, err
	}
	now, err := q.Store.Now(ctx)
	var out []Consumer
	for _, s := range states {
		out = append(out, Consumer{Consumer: s.Consumer, Stopped: s.Paused, Seen: s.Seen, Ago: max(now.Sub(s.Seen), 0)})
	}
	return out, err
}
