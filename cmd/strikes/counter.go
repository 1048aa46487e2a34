package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/internal/records"
)

func (a *app) counterCommand() *cobra.Command {
	return cli.Group("counter", "show what is counted of a queue's messages, reset it, and grant more attempts",
		a.counterListCommand(), a.counterGetCommand(), a.resetCommand(), a.grantCommand())
}

func (a *app) counterListCommand() *cobra.Command {
	var o counterOptions
	cmd := cli.New("list QUEUE", "list the messages that are failing, running or dead-lettered, the newest first", stateMeanings,
		func(ctx context.Context, args []string) error { return a.listCounters(ctx, o, args[0]) })
	o.addTo(cmd)
	cmd.Flags().IntVar(&o.limit, "limit", 0, "list `N` at most; 0: all")
	cli.JSON(cmd.Flags(), &o.json, "print one JSON object a message")
	return cmd
}

func (a *app) counterGetCommand() *cobra.Command {
	var o counterOptions
	cmd := cli.New("get QUEUE ID", "show what is counted of one message, in each of its generations, the newest first",
		"Put an ID that begins with - after --.\n"+stateMeanings,
		func(ctx context.Context, args []string) error { return a.getCounter(ctx, o, args[0], args[1]) })
	o.addTo(cmd)
	cli.JSON(cmd.Flags(), &o.json, "print one JSON object a generation")
	return cmd
}

// storeOptions are the flags of a verb that asks the store about a queue.
type storeOptions struct{ connect.Flags }

func (o *storeOptions) addTo(cmd *cobra.Command) {
	o.AddStore(cmd)
	o.AddBroker(cmd)
	o.AddVHost(cmd)
}

// counterOptions are the flags of the verbs that show counters.
type counterOptions struct {
	storeOptions

	limit int
	json  bool
}

func (a *app) listCounters(ctx context.Context, o counterOptions, queue string) error {
	if o.limit < 0 {
		return cli.Refused("limit", o.limit, "0 or more")
	}
	return a.withQueue(ctx, o.storeOptions, queue, func(q *records.Queue) error {
		override, err := q.Override(ctx)
		if err != nil {
			return err
		}
		out, n := render.Records(a.Out, o.json), 0
		for r, err := range q.List(ctx, o.limit) {
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

func (a *app) getCounter(ctx context.Context, o counterOptions, queue, id string) error {
	return a.withQueue(ctx, o.storeOptions, queue, func(q *records.Queue) error {
		all, err := q.Message(ctx, id)
		if err != nil {
			return err
		}
		override, err := q.Override(ctx)
		if err != nil {
			return err
		}
		for i, r := range all {
			v := records.Of(r, override, time.Now())
			if o.json {
				err = jsonl.NewEncoder(a.Out).Encode(v)
			} else {
				if i > 0 {
					fmt.Fprintln(a.Out)
				}
				err = render.Record(a.Out, v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
