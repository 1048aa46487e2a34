package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/runner"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/records"
)

func (a *app) limitCommand() *cobra.Command {
	return cli.Group("limit", "show, set and clear how often the messages of a queue are retried",
		a.limitGetCommand(), a.limitSetCommand(), a.limitClearCommand())
}

func (a *app) limitGetCommand() *cobra.Command {
	var o limitOptions
	cmd := cli.New("get QUEUE", "show the limit that was set in place of the consumers' own (exit 3: none)", "",
		func(ctx context.Context, args []string) error { return a.getLimit(ctx, o, args[0]) })
	o.storeOptions.addTo(cmd)
	cli.JSON(cmd.Flags(), &o.json, "print one JSON object")
	return cmd
}

func (a *app) limitSetCommand() *cobra.Command {
	var o limitOptions
	cmd := cli.New("set QUEUE N", "have messages retried N times after their first failure, whatever the consumers are configured with", `
In force at each message's next step, on every consumer, until it is cleared; nothing is restarted. A message that has failed more often
already is dead-lettered at its next step: with --yes, or once you confirmed it. N is 1000 at most, so that a record stays under 24 KiB;
grants add to it, up to 1001 attempts in all. N is compared with the queue's own delivery limit, which the broker reports.`[1:],
		func(ctx context.Context, args []string) error { return a.setLimit(ctx, o, args[0], args[1]) })
	o.addTo(cmd)
	o.addNote(cmd)
	o.addChange(cmd, "set", "")
	return cmd
}

func (a *app) limitClearCommand() *cobra.Command {
	var o limitOptions
	cmd := cli.New("clear QUEUE", "go back to what the consumers are configured with", "",
		func(ctx context.Context, args []string) error { return a.clearLimit(ctx, o, args[0]) })
	o.storeOptions.addTo(cmd)
	o.addChange(cmd, "cleared", "")
	return cmd
}

// limitOptions are the flags of the limit verbs.
type limitOptions struct {
	roomOptions
	noteOptions
	changeOptions
}

func (a *app) getLimit(ctx context.Context, o limitOptions, queue string) error {
	return a.withQueue(ctx, o.storeOptions, queue, func(q *records.Queue) error {
		l, err := q.Limit(ctx)
		if err != nil {
			return err
		}
		if o.json {
			return jsonl.NewEncoder(a.Out).Encode(l)
		}
		_, err = fmt.Fprintln(a.Out, render.Limit(l))
		return err
	})
}

func (a *app) setLimit(ctx context.Context, o limitOptions, queue, attempts string) error {
	n, err := strconv.Atoi(attempts)
	if err != nil || n < 0 || n > runner.MostRetries {
		return cli.Misusef("N must be a number of retries, 0 to %d as for --max-retries, got %q", runner.MostRetries, attempts)
	}
	why, err := o.note()
	if err != nil {
		return err
	}
	return a.withQueue(ctx, o.storeOptions, queue, func(q *records.Queue) error {
		if err := a.checkRoom(ctx, o.roomOptions, q.Name, n); err != nil {
			return err
		}
		plan, err := q.PlanLimit(ctx, counter.Override{MaxRetries: &n, Note: why})
		if err != nil {
			return err
		}
		return a.changeLimit(ctx, o, q, plan)
	})
}

func (a *app) clearLimit(ctx context.Context, o limitOptions, queue string) error {
	return a.withQueue(ctx, o.storeOptions, queue, func(q *records.Queue) error {
		plan, err := q.PlanClear(ctx)
		if err != nil {
			return err
		}
		return a.changeLimit(ctx, o, q, plan)
	})
}

// changeLimit asks first if the change dead-letters anything.
func (a *app) changeLimit(ctx context.Context, o limitOptions, q *records.Queue, plan records.Limit) error {
	question := ""
	if n := plan.DeadLetters; n > 0 {
		question = fmt.Sprintf("%s of queue %s failed that often already, and would be dead-lettered next. Go on?", term.Plural(n, "message"), term.Shown(q.Name))
	}
	return change[records.Limit]{steps: []records.Limit{plan}, question: question, do: q.ChangeLimit, text: limitChanged}.make(ctx, a, o.changeOptions)
}

func limitChanged(l records.Limit) string {
	text := term.Shown(l.Queue) + ": "
	if !*l.Done {
		text += "would be "
	}
	if l.Clears() {
		text += "cleared"
	} else {
		text += "set to " + term.Plural(l.MaxRetries, "retry")
	}
	if n := l.DeadLetters; n > 0 {
		text += fmt.Sprintf("; dead-letters %s that failed that often already", term.Plural(n, "message"))
	}
	return text
}
