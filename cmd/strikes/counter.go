package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) counterCommand() *cobra.Command {
	return cli.Group("counter", "show what is counted of a queue's messages, and reset it",
		a.counterListCommand(), a.counterGetCommand(), a.counterResetCommand())
}

func (a *app) counterListCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := cli.New("list QUEUE", "list the messages that are failing, running or dead-lettered, the newest first",
		stateMeanings,
		func(ctx context.Context, args []string) error { return c.List(ctx, args[0]) })
	c.AddRecords(cmd)
	cmd.Flags().IntVar(&c.Most, "limit", 0, "list `N` at most; 0: all")
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object a message")
	return cmd
}

func (a *app) counterGetCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := cli.New("get QUEUE ID", "show what is counted of one message, in each of its generations, the newest first",
		"Put an ID that begins with - after --.\n"+stateMeanings,
		func(ctx context.Context, args []string) error { return c.Get(ctx, args[0], args[1]) })
	c.AddRecords(cmd)
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object a generation")
	return cmd
}

func (a *app) counterResetCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := cli.New("reset QUEUE ID…", "forget what was counted of messages, so that they get all their attempts again", `
Put an ID that begins with - after --. A message that is in the dead-letter queue stays there. Who, when and why are kept with the record.`[1:],
		func(ctx context.Context, args []string) error { return c.Reset(ctx, args[0], args[1:]) })
	c.AddRecords(cmd)
	c.AddNote(cmd)
	c.AddChange(cmd, "forgotten", " an id")
	return cmd
}
