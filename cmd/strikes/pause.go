package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) pauseCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "pause QUEUE", Short: "stop every consumer of a queue, until it is resumed", Args: cobra.ExactArgs(1),
		Example: `  strikes pause orders --why "the database is being moved"`,
		Long: `Consumers take no more deliveries within two seconds, hold none and count
nothing. Running handlers finish, as at a stop. pause waits for that, and names
the processes that have not stopped (exit 1): the pause stands. Who, when and
why are kept until the queue is resumed. A store that loses its memory loses the
pause, and a pause that no consumer has read for 30 days ends.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.Pause(cmd.Context(), args[0]) },
	}
	cmd.Flags().DurationVar(&c.Wait, "wait", 5*time.Second,
		"wait for this `TIME` until all consumers have stopped; 0: do not wait")
	c.AddNote(cmd)
	c.AddDryRun(cmd, "paused")
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object")
	c.AddRecords(cmd)
	return cmd
}
