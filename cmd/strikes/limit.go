package main

import (
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) limitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "limit", Short: "show, set and clear how often messages are retried",
		Example: `  strikes limit get orders
  strikes limit set orders --max-retries 10 --why "the bank is slow"
  strikes limit clear orders`,
	}
	cmd.AddCommand(a.limitGetCommand(), a.limitSetCommand(), a.limitClearCommand())
	return cmd
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
	cmd := &cobra.Command{
		Use: "get QUEUE", Short: "show the limit that an operator set", Args: cobra.ExactArgs(1),
		Example: "  strikes limit get orders",
		Long:    "It is in force in place of the consumers' own. Exit 3: none is set.",
		RunE:    func(cmd *cobra.Command, args []string) error { return c.GetLimit(cmd.Context(), args[0]) },
	}
	addMessage(cmd, &c)
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object")
	c.AddRecords(cmd)
	return cmd
}

func (a *app) limitSetCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "set QUEUE", Short: "set how often, or for how long, messages are retried", Args: cobra.ExactArgs(1),
		Example: `  strikes limit set orders --max-retries 10 --why "the bank is slow"
  strikes limit set orders --max-age 36h --why "the bank is slow"
  strikes limit set orders --id order-17 --max-retries 20 --why "a big order"`,
		Long: `The limit is in force at each message's next step, on every consumer, whatever
it is configured with, until you clear it. Nothing is restarted.

--max-retries N gives a message N+1 attempts: 0 means no retry. A message that
has failed more than N times is dead-lettered at its next step, so the command
asks first if there are any. The queue's own delivery limit, which the broker
reports, must allow N.

--max-age TIME dead-letters a message that fails later than TIME after its first
failed attempt, whatever its count. Give one of the two flags, or both. What you
do not give stays as it is.

--id ID gives one message that has failed a limit of its own: it replaces every
other one, also a maximal age, until limit clear --id or counter reset. A
message that is already dead-lettered is replayed instead. strikes audit keeps
who set it, when and why.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f := cmd.Flags()
			return c.SetLimit(cmd.Context(), args[0], f.Changed("max-retries"), f.Changed("max-age"))
		},
	}
	cmd.Flags().IntVar(&c.MaxRetries, "max-retries", 0,
		"retry a message `N` times after its first failure, then dead-letter it: 0 to 1000")
	cli.DefaultText(cmd.Flags(), "max-retries", "unchanged")
	cli.Age(cmd.Flags(), &c.MaxAge, "max-age", "dead-letter messages that fail later than `TIME` after their first "+
		"failed attempt; 0: no limit")
	addMessage(cmd, &c)
	c.AddDeliveryLimit(cmd)
	c.AddNote(cmd)
	c.AddChange(cmd, "set", "")
	c.AddRecords(cmd)
	return cmd
}

func (a *app) limitClearCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "clear QUEUE", Short: "go back to what the consumers are configured with", Args: cobra.ExactArgs(1),
		Example: "  strikes limit clear orders",
		Long:    "With --id, --why is required.",
		RunE:    func(cmd *cobra.Command, args []string) error { return c.ClearLimit(cmd.Context(), args[0]) },
	}
	addMessage(cmd, &c)
	c.AddAudit(cmd)
	c.AddChange(cmd, "cleared", "")
	c.AddRecords(cmd)
	return cmd
}
