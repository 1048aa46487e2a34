package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) pauseCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := cli.New("pause QUEUE", "stop every consumer of a queue, until it is resumed", `
Consumers take no more deliveries within two seconds, hold none and count nothing. Running handlers finish, as at a stop. pause waits for
that, and names the processes that have not stopped (exit 1): the pause stands. Who, when and why are kept until the queue is resumed. A store
that loses its memory loses the pause, and a pause that no consumer has read for 30 days ends.`[1:],
		func(ctx context.Context, args []string) error { return c.Pause(ctx, args[0]) })
	c.AddRecords(cmd)
	c.AddNote(cmd)
	cmd.Flags().DurationVar(&c.Wait, "wait", 5*time.Second,
		"wait for this `TIME` until all consumers have stopped; 0: do not wait")
	c.AddDryRun(cmd, "paused")
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object")
	return cmd
}
