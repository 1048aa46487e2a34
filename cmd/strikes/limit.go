package main

import (
	"context"
	"fmt"
	"strconv"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/records"
)

func (a *app) limitCommand() *urfave.Command {
	return &urfave.Command{
		Name:   "limit",
		Usage:  "show, set and clear how often the messages of a queue are retried",
		Action: a.do(group),
		Commands: []*urfave.Command{
			{
				Name: "get", Usage: "show the limit that was set in place of the consumers' own (exit 3: none)",
				ArgsUsage: "QUEUE",
				Flags:     storeFlags(jsonFlag("print one JSON object")),
				Action:    a.do(a.getLimit),
			},
			{
				Name: "set", Usage: "have messages retried N times after their first failure, whatever the consumers are configured with",
				ArgsUsage: "QUEUE N",
				Description: "In force at each message's next step, on every consumer, until it is cleared; nothing is restarted. A message\n" +
					"that has failed more often already is dead-lettered at its next step: with --yes, or once you said so. N is 1000\n" +
					"at most, so that a record stays under 24 KiB; grants add to it, up to 1001 attempts in all. N is compared with the\n" +
					"queue's own delivery limit, which the broker reports.",
				Flags: storeFlags(noteFlags(roomFlags(
					&urfave.BoolFlag{Name: "dry-run", Usage: "only say what would be set"},
					&urfave.BoolFlag{Name: "yes", Usage: "do not ask"},
					jsonFlag("print one JSON object"),
				)...)...),
				Action: a.do(a.setLimit),
			},
			{
				Name: "clear", Usage: "go back to what the consumers are configured with",
				ArgsUsage: "QUEUE",
				Flags: storeFlags(
					&urfave.BoolFlag{Name: "dry-run", Usage: "only say what would be cleared"},
					&urfave.BoolFlag{Name: "yes", Usage: "do not ask"},
					jsonFlag("print one JSON object"),
				),
				Action: a.do(a.clearLimit),
			},
		},
	}
}

func (a *app) getLimit(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE")
	if err != nil {
		return err
	}
	return a.withQueue(ctx, c, args[0], func(q *records.Queue) error {
		l, err := q.Limit(ctx)
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return jsonl.NewEncoder(a.Out).Encode(l)
		}
		_, err = fmt.Fprintln(a.Out, render.Limit(l))
		return err
	})
}

func (a *app) setLimit(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE", "N")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 0 || n > mostRetries {
		return cli.Misusef("%s: N is %q: it is a number of retries, 0 to %d as for --max-retries", c.FullName(), args[1], mostRetries)
	}
	why, err := noteOf(c)
	if err != nil {
		return err
	}
	return a.withQueue(ctx, c, args[0], func(q *records.Queue) error {
		if err := a.checkRoom(ctx, c, q.Name, n); err != nil {
			return err
		}
		plan, err := q.PlanLimit(ctx, counter.Override{MaxRetries: n, Note: why})
		if err != nil {
			return err
		}
		return a.changeLimit(ctx, c, q, plan)
	})
}

func (a *app) clearLimit(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE")
	if err != nil {
		return err
	}
	return a.withQueue(ctx, c, args[0], func(q *records.Queue) error {
		plan, err := q.PlanClear(ctx)
		if err != nil {
			return err
		}
		return a.changeLimit(ctx, c, q, plan)
	})
}

// changeLimit asks first if the change dead-letters anything.
func (a *app) changeLimit(ctx context.Context, c *urfave.Command, q *records.Queue, plan records.Limit) error {
	question := ""
	if n := plan.DeadLetters; n > 0 {
		question = fmt.Sprintf("%s of queue %s failed that often already, and would be dead-lettered next. Go on?", term.Plural(n, "message"), term.Shown(q.Name))
	}
	return change[records.Limit]{steps: []records.Limit{plan}, question: question, do: q.ChangeLimit, text: limitChanged}.make(ctx, a, c)
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
