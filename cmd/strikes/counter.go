package main

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/internal/records"
)

func (a *app) counterCommand() *cli.Command {
	return &cli.Command{
		Name:   "counter",
		Usage:  "show what is counted of a queue's messages, reset it, and grant more tries",
		Action: a.do(group),
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "list the messages that are failing, running or dead-lettered, the newest first",
				ArgsUsage: "QUEUE", Description: stateMeanings,
				Flags: storeFlags(
					&cli.IntFlag{Name: "limit", Usage: "list `N` at most; 0: all"},
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

func storeFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		redisFlag(), prefixFlag(), amqpFlag(),
		&cli.StringFlag{Name: "vhost", Sources: env("vhost"), DefaultText: "that of the AMQP URL", Usage: "the queue's virtual `HOST`"},
	}, more...)
}

func (a *app) listCounters(ctx context.Context, c *cli.Command) error {
	args, err := positional(c, "QUEUE")
	if err != nil {
		return err
	}
	limit := c.Int("limit")
	if limit < 0 {
		return usagef("--limit is %d: it must not be negative", limit)
	}
	return a.withQueue(ctx, c, args[0], func(q *records.Queue) error {
		override, err := q.Override(ctx)
		if err != nil {
			return err
		}
		out, n := a.recordPrinter(c.Bool("json")), 0
		for r, err := range q.List(ctx, limit) {
			if err != nil {
				return errors.Join(out.flush(), err)
			}
			now := time.Now()
			if err := out.row(records.Of(r, override, now), now); err != nil {
				return err
			}
			n++
		}
		if n == 0 {
			return q.None("nothing is counted")
		}
		return out.flush()
	})
}

func (a *app) getCounter(ctx context.Context, c *cli.Command) error {
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
			if c.Bool("json") {
				err = ndjson(a.stdout).Encode(v)
			} else {
				err = a.printRecord(v, i > 0)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
