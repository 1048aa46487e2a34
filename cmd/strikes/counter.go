package main

import (
	"context"
	"errors"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/internal/records"
)

func (a *app) counterCommand() *urfave.Command {
	return &urfave.Command{
		Name:   "counter",
		Usage:  "show what is counted of a queue's messages, reset it, and grant more tries",
		Action: a.do(group),
		Commands: []*urfave.Command{
			{
				Name: "list", Usage: "list the messages that are failing, running or dead-lettered, the newest first",
				ArgsUsage: "QUEUE", Description: stateMeanings,
				Flags: storeFlags(
					&urfave.IntFlag{Name: "limit", Usage: "list `N` at most; 0: all"},
					jsonFlag("print one JSON object a message"),
				),
				Action: a.do(a.listCounters),
			},
			{
				Name: "get", Usage: "show what is counted of one message, in each of its lives, the newest first",
				ArgsUsage: "QUEUE ID", Description: "An ID that begins with - stands behind --.\n" + stateMeanings,
				Flags:  storeFlags(jsonFlag("print one JSON object a life")),
				Action: a.do(a.getCounter),
			},
			a.resetCommand(), a.grantCommand(),
		},
	}
}

func storeFlags(more ...urfave.Flag) []urfave.Flag {
	return append([]urfave.Flag{
		redisFlag(), prefixFlag(), amqpFlag(),
		&urfave.StringFlag{Name: "vhost", Sources: env("vhost"), DefaultText: "that of the AMQP URL", Usage: "the queue's virtual `HOST`"},
	}, more...)
}

func (a *app) listCounters(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE")
	if err != nil {
		return err
	}
	limit := c.Int("limit")
	if limit < 0 {
		return cli.Misusef("--limit is %d: it must not be negative", limit)
	}
	return a.withQueue(ctx, c, args[0], func(q *records.Queue) error {
		override, err := q.Override(ctx)
		if err != nil {
			return err
		}
		out, n := render.Records(a.Out, c.Bool("json")), 0
		for r, err := range q.List(ctx, limit) {
			if err != nil {
				return errors.Join(out.Flush(), err)
			}
			if err := out.Row(records.Of(r, override, time.Now())); err != nil {
				return err
			}
			n++
		}
		if n == 0 {
			return q.None("nothing is counted")
		}
		return out.Flush()
	})
}

func (a *app) getCounter(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE", "ID")
	if err != nil {
		return err
	}
	return a.withQueue(ctx, c, args[0], func(q *records.Queue) error {
		all, err := q.Message(ctx, args[1])
		if err != nil {
			return err
		}
		override, err := q.Override(ctx)
		if err != nil {
			return err
		}
		for i, r := range all {
			v := records.Of(r, override, time.Now())
			switch {
			case c.Bool("json"):
				err = jsonl.NewEncoder(a.Out).Encode(v)
			default:
				err = separated(a.Out, i > 0, func() error { return render.Record(a.Out, v) })
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
