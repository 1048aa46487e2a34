package main

import (
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) resumeCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "resume QUEUE", Short: "end the pause of a queue, and close its breaker", Args: cobra.ExactArgs(1),
		Example: "  strikes resume orders\n  strikes resume orders --count 10m",
		Long: `Ends the pause, and closes the breaker, which is open while no message succeeds.
It prints which of the two it ended. Without --count it also ends the time of an
earlier --count. Consumers go on within two seconds. A
breaker opens again if messages fail and none succeeds. Exit 3: the queue is not
paused, and its breaker is closed.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.Resume(cmd.Context(), args[0]) },
	}
	cmd.Flags().DurationVar(&c.Count, "count", 0, "count every failure for this `TIME`, 24h at most, so that messages "+
		"which always fail are dead-lettered though no message succeeds; not in an outage of a system that CMD needs, and "+
		"not after a bad deploy")
	c.AddAudit(cmd)
	c.AddDryRun(cmd, "resumed")
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object")
	c.AddRecords(cmd)
	return cmd
}
