package main

import (
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) resumeCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "resume QUEUE", Short: "end the pause of a queue", Args: cobra.ExactArgs(1),
		Example: "  strikes resume orders",
		Long:    "Its consumers take deliveries again within two seconds.\nExit 3: the queue is not paused.",
		RunE:    func(cmd *cobra.Command, args []string) error { return c.Resume(cmd.Context(), args[0]) },
	}
	c.AddAudit(cmd)
	c.AddDryRun(cmd, "resumed")
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object")
	c.AddRecords(cmd)
	return cmd
}
