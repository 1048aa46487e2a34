package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) resumeCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := cli.New("resume QUEUE", "end the pause of a queue",
		"Its consumers take deliveries again within two seconds. Exit 3: the queue is not paused.",
		func(ctx context.Context, args []string) error { return c.Resume(ctx, args[0]) })
	c.AddRecords(cmd)
	c.AddAudit(cmd)
	c.AddDryRun(cmd, "resumed")
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object")
	return cmd
}
