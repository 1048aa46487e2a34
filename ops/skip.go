package ops

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
)

// Skip has one message dead-lettered at its next step.
type Skip struct {
	VHost          string `json:"vhost"`
	Queue          string `json:"queue"`
	ID             string `json:"id"`
	Generation     string `json:"generation,omitempty"`
	FailedAttempts int    `json:"failed_attempts"`
	counter.Note
	Running bool      `json:"running,omitempty"` // an attempt is under way; if it succeeds, the message is handled
	Due     time.Time `json:"due,omitzero"`      // the message was moved to a delay queue, and returns then
	Before  bool      `json:"before,omitempty"`  // another operator skipped it before, whose Note stays
	Done    bool      `json:"done"`

	message counter.Message
	why     counter.Note
}

func planSkip(ctx context.Context, q *Queue, a Ask) (Plan, error) {
	r, err := q.current(ctx, a.ID, counter.StateSkip)
	if err != nil {
		return nil, err
	}
	s := &Skip{
		VHost: q.VHost, Queue: q.Name, ID: r.ID, Generation: r.Generation, FailedAttempts: r.Counted(), Note: a.Note,
		Running: r.OpenToken != "", message: r.Message, why: a.Note,
	}
	if r.Move.Top > 0 && !s.Running && r.Due.After(time.Now()) {
		s.Due = r.Due
	}
	if s.Before = r.State == counter.StateSkip; s.Before {
		s.Note = r.Skipped
	}
	return s, nil
}

// Question asks before the message is dead-lettered.
func (s *Skip) Question(int) string {
	return fmt.Sprintf("Dead-letter message %s of queue %s?", printable.Name(s.ID), printable.Name(s.Queue))
}

// Do skips the message. If it was skipped before, its consumer is only reminded.
func (s *Skip) Do(ctx context.Context, q *Queue) error {
	before, err := q.Store.Skip(ctx, s.message, s.why)
	s.Done, s.Before, s.Note = err == nil, before != nil, *cmp.Or(before, &s.why)
	if s.Before {
		return err
	}
	return q.audited(ctx, VerbSkip, s.ID, s.why, 1, err)
}

// Text says when the message is dead-lettered.
func (s *Skip) Text() string {
	done := "would be skipped"
	switch {
	case s.Before:
		done = "was skipped before"
	case s.Done:
		done = "skipped"
	}
	text := fmt.Sprintf("%s: %s (%s)", printable.Name(s.ID), done, printable.Plural(s.FailedAttempts, "failed attempt"))
	if s.Running {
		text += "; an attempt is under way: if it succeeds, the message is handled"
	}
	if !s.Due.IsZero() {
		text += "; it was moved to a delay queue, and is dead-lettered when it returns: " + s.Due.UTC().Format(time.RFC3339)
	}
	return text
}
