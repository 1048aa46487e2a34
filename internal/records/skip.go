package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// Skip has one message dead-lettered at its next step.
type Skip struct {
	VHost          string `json:"vhost"`
	Queue          string `json:"queue"`
	ID             string `json:"id"`
	Generation     string `json:"generation,omitempty"`
	FailedAttempts int    `json:"failed_attempts"`
	Note
	Running bool      `json:"running,omitempty"` // an attempt is under way; if it succeeds, the message is handled
	Due     time.Time `json:"due,omitzero"`      // the message was moved to a delay queue, and returns then
	Before  bool      `json:"before,omitempty"`  // another operator skipped it before, whose Note stays
	Done    bool      `json:"done"`

	message counter.Message
	why     counter.Note
}

// PlanSkip finds what a skip would change. The error wraps ErrNone if the store has no record of the message,
// counter.ErrOver if its last generation is over.
func (q *Queue) PlanSkip(ctx context.Context, id string, why counter.Note) (Skip, error) {
	all, err := q.Message(ctx, id)
	if errors.Is(err, ErrNone) {
		err = fmt.Errorf("%w: it has not failed yet", err)
	}
	if err != nil {
		return Skip{}, err
	}
	i := slices.IndexFunc(all, func(r counter.Record) bool {
		return r.State == counter.StateLive || r.State == counter.StateSkip
	})
	if i < 0 {
		return Skip{}, fmt.Errorf("message %q of queue %q: %w", id, q.Name, counter.ErrOver)
	}
	r := all[i]
	s := Skip{
		VHost: q.VHost, Queue: q.Name, ID: r.ID, Generation: r.Generation, FailedAttempts: r.Counted(), Note: NoteOf(why),
		Running: r.OpenToken != "", message: r.Message, why: why,
	}
	if r.Move.Top > 0 && !s.Running && r.Due.After(time.Now()) {
		s.Due = r.Due
	}
	if s.Before = r.State == counter.StateSkip; s.Before {
		s.Note = NoteOf(r.Skipped)
	}
	return s, nil
}

// Skip carries out a plan. If the message was skipped before, its consumer is only reminded.
func (q *Queue) Skip(ctx context.Context, s *Skip) error {
	err := q.Store.Skip(ctx, s.message, s.why)
	if !s.Before {
		q.Audit(ctx, entryOf(VerbSkip, s.ID, s.why, 1), err)
	}
	s.Done = err == nil
	return err
}
