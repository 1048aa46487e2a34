package counters

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/change"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/records"
)

// Skip has a message dead-lettered at its next step.
func (c *Command) Skip(ctx context.Context, queue, id string) error {
	why, err := c.Note.Note()
	if err != nil {
		return err
	}
	return c.WithQueue(ctx, queue, func(q *records.Queue) error {
		plan, err := q.PlanSkip(ctx, id, why)
		if err != nil {
			return err
		}
		question := fmt.Sprintf("Dead-letter message %s of queue %s?", term.Shown(id), term.Shown(q.Name))
		return change.Change[records.Skip]{Steps: []records.Skip{plan}, Question: question, Do: q.Skip,
			Text: skipText}.Make(ctx, c.Streams, c.Options)
	})
}

func skipText(s records.Skip) string {
	verb := "would be skipped"
	switch {
	case s.Before:
		verb = "was skipped before"
	case s.Done:
		verb = "skipped"
	}
	text := fmt.Sprintf("%s: %s (%s)", term.Shown(s.ID), verb, printable.Plural(s.FailedAttempts, "failed attempt"))
	if s.Running {
		text += "; an attempt is under way: if it succeeds, the message is handled"
	}
	if !s.Due.IsZero() {
		text += "; it was moved to a delay queue, and is dead-lettered when it returns: " + s.Due.UTC().Format(time.RFC3339)
	}
	return text
}
