package main

import (
	"context"
	"fmt"
	"io"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/records"
)

func (a *app) resetCommand() *urfave.Command {
	return &urfave.Command{
		Name: "reset", Usage: "forget what was counted of messages, so that their budget is full again",
		ArgsUsage: "QUEUE ID…",
		Description: "An ID that begins with - stands behind --. A message that is in the dead-letter queue stays there. Who, when and\n" +
			"why are kept with the record.",
		Flags: storeFlags(noteFlags(
			&urfave.BoolFlag{Name: "dry-run", Usage: "only say what would be forgotten"},
			&urfave.BoolFlag{Name: "yes", Usage: "do not ask; needed where there is no terminal to ask at"},
			jsonFlag("print one JSON object an id"),
		)...),
		Action: a.do(a.resetCounters),
	}
}

func (a *app) resetCounters(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE", "ID…")
	if err != nil {
		return err
	}
	why, err := noteOf(c)
	if err != nil {
		return err
	}
	return a.withQueue(ctx, c, args[0], func(q *records.Queue) error {
		plan, unknown, err := q.PlanReset(ctx, args[1:])
		switch {
		case err != nil:
			return err
		case len(plan) == 0:
			return q.None("nothing is counted of %s", someNames(unknown))
		case len(unknown) > 0:
			fmt.Fprintf(a.Err, "strikes: nothing is counted of %s\n", someNames(unknown))
		}
		warnOfDead(a.Err, plan)
		return change[records.Reset]{
			steps:    plan,
			question: fmt.Sprintf("Forget what is counted of %s of queue %s?", term.Plural(len(plan), "message"), term.Shown(q.Name)),
			do:       func(ctx context.Context, r *records.Reset) error { return q.Reset(ctx, r, why) },
			text:     resetText,
		}.make(ctx, a, c)
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
		fmt.Fprintf(stderr, "strikes: dead-lettered: %s; reset forgets why and brings nothing back; `strikes dead replay` gives new attempts\n", someNames(ids))
	}
}

func resetText(r records.Reset) string {
	what := "would be forgotten"
	if r.Done {
		what = "forgotten"
	}
	return fmt.Sprintf("%s: %s (%s, %s)", term.Shown(r.ID), what, term.Plural(r.FailedAttempts, "failed attempt"), term.Plural(r.Generations, "generation"))
}
