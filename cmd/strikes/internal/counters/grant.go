package counters

import (
	"context"
	"fmt"
	"strconv"

	"github.com/strikesmq/strikes/cmd/strikes/internal/change"
	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/records"
)

// Grant adds n attempts to the limit of a message.
func (c *Command) Grant(ctx context.Context, queue, id, n string) error {
	attempts, err := strconv.Atoi(n)
	if err != nil || attempts < 1 || attempts > counter.MaxGrant {
		return cli.Misusef("N must be a number of attempts, 1 to %d, got %q", counter.MaxGrant, n)
	}
	why, err := c.Note.Note()
	if err != nil {
		return err
	}
	return c.WithQueue(ctx, queue, func(q *records.Queue) error {
		plan, err := q.PlanGrant(ctx, id, attempts, why)
		if err != nil {
			return err
		}
		if err := c.checkRetries(ctx, q.Name, plan.Retries()); err != nil {
			return err
		}
		return change.Change[records.Grant]{Steps: []records.Grant{plan}, Do: q.Grant, Text: grantText}.Make(ctx, c.Streams, c.Options)
	})
}

func grantText(g records.Grant) string {
	verb := "would be granted"
	if g.Done {
		verb = "granted"
	}
	now := printable.Plural(g.FailedAttempts, "failed attempt")
	if g.Limit > 0 {
		now += ", limit " + printable.Plural(g.Limit, "attempt")
	}
	return fmt.Sprintf("%s: %s %s (%s)", term.Shown(g.ID), verb, printable.Plural(g.Attempts, "more attempt"), now)
}
