package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) limitCommand() *cobra.Command {
	return cli.Group("limit", "show, set and clear how often the messages of a queue, or one of them, are retried",
		a.limitGetCommand(), a.limitSetCommand(), a.limitClearCommand())
}

// addMessage adds --id. An empty ID, such as that of a variable which is not set, is refused: without an ID the limit
// is that of the whole queue.
func addMessage(cmd *cobra.Command, c *counters.Command) {
	cmd.Flags().StringVar(&c.ID, "id", "", "the limit of the message `ID` alone")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("id") && c.ID == "" {
			return cli.Refused("id", "", "the id of a message; leave --id out for the limit of the whole queue")
		}
		return nil
	}
}

func (a *app) limitGetCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := cli.New("get QUEUE", "show the limit that was set in place of the consumers' own (exit 3: none)", "",
		func(ctx context.Context, args []string) error { return c.GetLimit(ctx, args[0]) })
	addMessage(cmd, &c)
	c.AddRecords(cmd)
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object")
	return cmd
}

func (a *app) limitSetCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	var cmd *cobra.Command
	cmd = cli.New("set QUEUE", "set how often messages are retried, or for how long, whatever the consumers are "+
		"configured with", `
The limit is in force at each message's next step, on every consumer, until you clear it. Nothing is restarted.

--max-retries N gives a message N+1 attempts: 0 means no retry. A message that has failed more than N times is dead-lettered at its next
step, so the command asks first if there are any. The queue's own delivery limit, which the broker reports, must allow N.

--max-age TIME dead-letters a message that fails later than TIME after its first failed attempt, whatever its count. Give one of the two
flags, or both. What you do not give stays as it is.

--id ID gives one message that has failed a limit of its own: it replaces every other one, also a maximal age, until limit clear --id or
counter reset. A message that is already dead-lettered is replayed instead. strikes audit keeps who set it, when and why.`[1:],
		func(ctx context.Context, args []string) error {
			return c.SetLimit(ctx, args[0], cmd.Flags().Changed("max-retries"), cmd.Flags().Changed("max-age"))
		})
	cmd.Flags().IntVar(&c.MaxRetries, "max-retries", 0,
		"retry a message `N` times after its first failure, then dead-letter it: 0 to 1000")
	cli.DefaultText(cmd.Flags(), "max-retries", "unchanged")
	cli.Age(cmd.Flags(), &c.MaxAge, "max-age", "dead-letter messages that fail later than `TIME` after their first "+
		"failed attempt; 0: no limit")
	addMessage(cmd, &c)
	c.AddRecords(cmd)
	c.AddDeliveryLimit(cmd)
	c.AddNote(cmd)
	c.AddChange(cmd, "set", "")
	return cmd
}

func (a *app) limitClearCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := cli.New("clear QUEUE", "go back to what the consumers are configured with", "With --id, --why is required.",
		func(ctx context.Context, args []string) error { return c.ClearLimit(ctx, args[0]) })
	addMessage(cmd, &c)
	c.AddRecords(cmd)
	c.AddAudit(cmd)
	c.AddChange(cmd, "cleared", "")
	return cmd
}
