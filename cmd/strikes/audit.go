package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/ops"
)

func (a *app) auditCommand() *cobra.Command {
	c, most := a.storeVerb(), 0
	cmd := &cobra.Command{
		Use: "audit QUEUE", Short: "show who changed what on a queue, when and why", Args: cobra.ExactArgs(1),
		Example: "  strikes audit orders\n  strikes audit orders --limit 10 --json",
		Long: `The newest change comes first. Every pause, resume, skip, reset, limit, replay
and drop is written to the audit log, by this command and by the console. A
replay or a drop has two entries: one when it begins, one with its result. The
store keeps the last 1,000 entries of a queue, for 90 days after the last one.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.audit(cmd.Context(), args[0], most) },
	}
	cmd.Flags().IntVar(&most, "limit", 50, "show `N` at most")
	c.addOutput(cmd, "print one JSON object a change")
	return cmd
}

// mostEntries is the number of entries that the audit log keeps.
const mostEntries = 1000

// audit shows each change of a queue, and who made it.
func (c *storeVerb) audit(ctx context.Context, queue string, most int) error {
	if most < 1 || most > mostEntries {
		return cli.Refused("limit", most, "1 to 1000")
	}
	return c.withQueue(ctx, queue, func(q *ops.Queue) error {
		entries, err := q.AuditLog(ctx, most)
		if err != nil {
			return err
		}
		out := render.Audit(c.Out, c.json)
		for _, e := range entries {
			if err := out.Row(e); err != nil {
				return err
			}
		}
		return out.Flush()
	})
}
