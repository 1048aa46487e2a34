package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) limitCommand() *cobra.Command {
	return cli.Group("limit", "show, set and clear how many attempts the messages of a queue get",
		a.limitGetCommand(), a.limitSetCommand(), a.limitClearCommand())
}

func (a *app) limitGetCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := cli.New("get QUEUE", "show the limit that was set in place of the consumers' own, in attempts (exit 3: none)", "",
		func(ctx context.Context, args []string) error { return c.GetLimit(ctx, args[0]) })
	c.AddRecords(cmd)
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object")
	return cmd
}

func (a *app) limitSetCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	var cmd *cobra.Command
	cmd = cli.New("set QUEUE [N]", "give messages N attempts in all, or a maximal age, whatever the consumers are configured with", `
N counts the first attempt: 1 means no retry, and N attempts are --max-retries N-1. In force at each message's next step, on every consumer,
until it is cleared; nothing is restarted. A message that has N failed attempts already is dead-lettered at its next step: with --yes, or
once you confirmed it. N is 1001 at most, grants included, so that a record stays under 24 KiB. The queue's own delivery limit, which the
broker reports, must allow N.
With --max-age a message that fails later than that after its first failed attempt is dead-lettered, whatever its count. If N or
--max-age is not given, it stays as it is.`[1:],
		func(ctx context.Context, args []string) error {
			return c.SetLimit(ctx, args[0], args[1:], cmd.Flags().Changed("max-age"))
		})
	cli.Age(cmd.Flags(), &c.MaxAge, "max-age", "dead-letter messages that fail later than `TIME` after their first failed attempt; 0: no limit")
	c.AddRecords(cmd)
	c.AddDeliveryLimit(cmd)
	c.AddNote(cmd)
	c.AddChange(cmd, "set", "")
	return cmd
}

func (a *app) limitClearCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := cli.New("clear QUEUE", "go back to what the consumers are configured with", "",
		func(ctx context.Context, args []string) error { return c.ClearLimit(ctx, args[0]) })
	c.AddRecords(cmd)
	c.AddAudit(cmd)
	c.AddChange(cmd, "cleared", "")
	return cmd
}
