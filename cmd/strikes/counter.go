package main

import (
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) counterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "counter", Short: "show what is counted of messages, and reset it",
		Example: "  strikes counter list orders\n" +
			`  strikes counter reset orders order-17 --why "the bank was down"`,
	}
	cmd.AddCommand(a.counterListCommand(), a.counterGetCommand(), a.counterResetCommand())
	return cmd
}

func (a *app) counterListCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "list QUEUE", Short: "list messages that fail, run or are dead-lettered", Args: cobra.ExactArgs(1),
		Example: "  strikes counter list orders\n  strikes counter list orders --limit 20 --json",
		Long:    "The newest comes first. strikes help words explains STATE.",
		RunE:    func(cmd *cobra.Command, args []string) error { return c.List(cmd.Context(), args[0]) },
	}
	cmd.Flags().IntVar(&c.Most, "limit", 0, "list `N` at most; 0: all")
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object a message")
	c.AddRecords(cmd)
	return cmd
}

func (a *app) counterGetCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "get QUEUE ID", Short: "show what is counted of one message", Args: cobra.ExactArgs(2),
		Example: "  strikes counter get orders order-17",
		Long: `Each generation of the message is shown, the newest first: a replay begins a new
one. Put an ID that begins with - after --. strikes help words explains the
state.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.Get(cmd.Context(), args[0], args[1]) },
	}
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object a generation")
	c.AddRecords(cmd)
	return cmd
}

func (a *app) counterResetCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "reset QUEUE ID…", Short: "give messages all their attempts again", Args: cobra.MinimumNArgs(2),
		Example: `  strikes counter reset orders order-17 order-18 --why "the bank was down"`,
		Long: `Forgets what was counted of the messages. A message that is in the dead-letter
queue stays there. Who, when and why are kept with the record. Put an ID that
begins with - after --.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.Reset(cmd.Context(), args[0], args[1:]) },
	}
	c.AddNote(cmd)
	c.AddChange(cmd, "forgotten", " an id")
	c.AddRecords(cmd)
	return cmd
}
