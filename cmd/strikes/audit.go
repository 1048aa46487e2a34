package main

import (
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/counters"
)

func (a *app) auditCommand() *cobra.Command {
	c := counters.Command{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "audit QUEUE", Short: "show who changed what on a queue, when and why", Args: cobra.ExactArgs(1),
		Example: "  strikes audit orders\n  strikes audit orders --limit 10 --json",
		Long: `The newest change comes first. Every pause, resume, skip, reset, limit, replay
and drop is written to the audit log, by this command and by the console. A
replay or a drop has two entries: one when it begins, one with its result. The
store keeps the last 1,000 entries of a queue, for 90 days after the last one.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.Audit(cmd.Context(), args[0]) },
	}
	cmd.Flags().IntVar(&c.Most, "limit", 50, "show `N` at most")
	cli.JSON(cmd.Flags(), &c.JSON, "print one JSON object a change")
	c.AddRecords(cmd)
	return cmd
}
