package counters

import (
	"context"
	"fmt"
	"io"

	"github.com/strikesmq/strikes/cmd/strikes/internal/change"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/records"
)

// Reset forgets what is counted of messages.
func (c *Command) Reset(ctx context.Context, queue string, ids []string) error {
	why, err := c.Note.Note()
	if err != nil {
		return err
	}
	return c.WithQueue(ctx, queue, func(q *records.Queue) error {
		plan, unknown, err := q.PlanReset(ctx, ids)
		switch {
		case err != nil:
			return err
		case len(plan) == 0:
			return q.None("nothing is counted of %s", term.Names(unknown))
		case len(unknown) > 0:
			fmt.Fprintf(c.Err, "strikes: nothing is counted of %s\n", term.Names(unknown))
		}
		warnOfDead(c.Err, plan)
		return change.Change[records.Reset]{
			Steps: plan,
			Question: fmt.Sprintf("Forget what is counted of %s of queue %s?", printable.Plural(len(plan), "message"),
				term.Shown(q.Name)),
			Do:   func(ctx context.Context, r *records.Reset) error { return q.Reset(ctx, r, why) },
			Text: resetText,
		}.Make(ctx, c.Streams, c.Options)
	})
}

// warnOfDead says what is lost with the record of a dead letter.
func warnOfDead(stderr io.Writer, plan []records.Reset) {
	var ids []string
	for _, r := range plan {
		if r.DeadLettered > 0 {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) > 0 {
		fmt.Fprintf(stderr, "strikes: dead-lettered: %s; reset forgets why and brings nothing back; `strikes dead replay` "+
			"gives new attempts\n", term.Names(ids))
	}
}

func resetText(r records.Reset) string {
	what := "would be forgotten"
	if r.Done {
		what = "forgotten"
	}
	return fmt.Sprintf("%s: %s (%s, %s)", term.Shown(r.ID), what, printable.Plural(r.FailedAttempts, "failed attempt"),
		printable.Plural(r.Generations, "generation"))
}
