package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) auditCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := cli.New("audit QUEUE", "show who changed what on a queue, when and why, the newest first", `
Every pause, resume, skip, reset, limit, replay and drop is written to the audit log, by this command and by the console. A replay or a drop
has two entries: one when it begins, one with its result. The store keeps the last 1,000 entries of a queue, for 90 days after the last one.`[1:],
		func(ctx context.Context, args []string) error { return c.Audit(ctx, args[0]) })
	c.AddRecords(cmd)
	cmd.Flags().IntVar(&c.Most, "limit", 50, "show `N` at most")
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object a change")
	return cmd
}
