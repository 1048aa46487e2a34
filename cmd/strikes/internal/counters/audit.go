package counters

import (
	"context"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/ops"
)

// mostEntries is the number of entries that the audit log keeps.
const mostEntries = 1000

// Audit shows who changed what on a queue.
func (c *Command) Audit(ctx context.Context, queue string) error {
	if c.Most < 1 || c.Most > mostEntries {
		return cli.Refused("limit", c.Most, "1 to 1000")
	}
	return c.WithQueue(ctx, queue, func(q *ops.Queue) error {
		entries, err := q.AuditLog(ctx, c.Most)
		if err != nil {
			return err
		}
		out := render.Audit(c.Out, c.JSON)
		for _, e := range entries {
			if err := out.Row(e); err != nil {
				return err
			}
		}
		return out.Flush()
	})
}
