package main

import (
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) skipCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "skip QUEUE ID", Short: "have a failing message dead-lettered now", Args: cobra.ExactArgs(2),
		Example: `  strikes skip orders order-17 --why "cancelled by the customer"`,
		Long: `The message is dead-lettered whatever its limit. One that waits for its backoff
is dead-lettered within two seconds, one that waits in the queue when it is
delivered, and one that waits in a delay queue when it returns. A running
attempt finishes: if it succeeds, the message is handled. The reason is kept
with the dead letter. counter reset cancels a skip. A message that has not
failed yet cannot be skipped (exit 3). Put an ID that begins with - after --.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.Skip(cmd.Context(), args[0], args[1]) },
	}
	c.AddNote(cmd)
	c.AddChange(cmd, "skipped", "")
	c.AddRecords(cmd)
	return cmd
}
