package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/records"
)

func (a *app) resetCommand() *cobra.Command {
	var o resetOptions
	cmd := cli.New("reset QUEUE ID…", "forget what was counted of messages, so that they get all their attempts again", `
Put an ID that begins with - after --. A message that is in the dead-letter queue stays there. Who, when and why are kept with the record.`[1:],
		func(ctx context.Context, args []string) error { return a.resetCounters(ctx, o, args[0], args[1:]) })
	o.addTo(cmd)
	o.addNote(cmd)
	o.addChange(cmd, "forgotten", " an id")
	return cmd
}

// resetOptions are the flags of counter reset.
type resetOptions struct {
	storeOptions
	noteOptions
	changeOptions
}

func (a *app) resetCounters(ctx context.Context, o resetOptions, queue string, ids []string) error {
	why, err := o.note()
	if err != nil {
		return err
	}
	return a.withQueue(ctx, o.storeOptions, queue, func(q *records.Queue) error {
		plan, unknown, err := q.PlanReset(ctx, ids)
		switch {
		case err != nil:
			return err
		case len(plan) == 0:
			return q.None("nothing is counted of %s", term.Names(unknown))
		case len(unknown) > 0:
			fmt.Fprintf(a.Err, "strikes: nothing is counted of %s\n", term.Names(unknown))
		}
		warnOfDead(a.Err, plan)
		return change[records.Reset]{
			steps:    plan,
			question: fmt.Sprintf("Forget what is counted of %s of queue %s?", term.Plural(len(plan), "message"), term.Shown(q.Name)),
			do:       func(ctx context.Context, r *records.Reset) error { return q.Reset(ctx, r, why) },
			text:     resetText,
		}.make(ctx, a, o.changeOptions)
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
		fmt.Fprintf(stderr, "strikes: dead-lettered: %s; reset forgets why and brings nothing back; `strikes dead replay` gives new attempts\n", term.Names(ids))
	}
}

func resetText(r records.Reset) string {
	what := "would be forgotten"
	if r.Done {
		what = "forgotten"
	}
	return fmt.Sprintf("%s: %s (%s, %s)", term.Shown(r.ID), what, term.Plural(r.FailedAttempts, "failed attempt"), term.Plural(r.Generations, "generation"))
}
