package counters

import (
	"context"
	"fmt"
	"strconv"

	"github.com/strikesmq/strikes/cmd/strikes/internal/change"
	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/records"
)

// GetLimit shows the limit that is set for a queue.
func (c *Command) GetLimit(ctx context.Context, queue string) error {
	return c.WithQueue(ctx, queue, func(q *records.Queue) error {
		l, err := q.Limit(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return jsonl.NewEncoder(c.Out).Encode(l)
		}
		_, err = fmt.Fprintln(c.Out, render.Limit(l))
		return err
	})
}

// SetLimit sets the limit of a queue.
func (c *Command) SetLimit(ctx context.Context, queue, attempts string) error {
	n, err := strconv.Atoi(attempts)
	if err != nil || n < 1 || n > counter.MaxOverride+1 {
		return cli.Misusef("N must be a number of attempts, 1 to %d, got %q", counter.MaxOverride+1, attempts)
	}
	retries := n - 1
	why, err := c.Note.Note()
	if err != nil {
		return err
	}
	return c.WithQueue(ctx, queue, func(q *records.Queue) error {
		if err := c.checkRetries(ctx, q.Name, retries); err != nil {
			return err
		}
		plan, err := q.PlanLimit(ctx, counter.Override{MaxRetries: &retries, Note: why})
		if err != nil {
			return err
		}
		return c.changeLimit(ctx, q, plan)
	})
}

// ClearLimit removes the limit of a queue.
func (c *Command) ClearLimit(ctx context.Context, queue string) error {
	return c.WithQueue(ctx, queue, func(q *records.Queue) error {
		plan, err := q.PlanClear(ctx, c.Given())
		if err != nil {
			return err
		}
		return c.changeLimit(ctx, q, plan)
	})
}

// changeLimit asks first if the change dead-letters anything.
func (c *Command) changeLimit(ctx context.Context, q *records.Queue, plan records.Limit) error {
	question := ""
	if n := plan.DeadLetters; n > 0 {
		question = fmt.Sprintf("%s of queue %s failed that often already, and would be dead-lettered at the next step. Go on?", printable.Plural(n, "message"), term.Shown(q.Name))
	}
	return change.Change[records.Limit]{Steps: []records.Limit{plan}, Question: question, Do: q.ChangeLimit, Text: limitChanged}.Make(ctx, c.Streams, c.Options)
}

func limitChanged(l records.Limit) string {
	text := term.Shown(l.Queue) + ": "
	if !*l.Done {
		text += "would be "
	}
	if l.Clears() {
		text += "cleared"
	} else {
		text += "set to " + render.Attempts(l)
	}
	if n := l.DeadLetters; n > 0 {
		text += fmt.Sprintf("; dead-letters %s that failed that often already", printable.Plural(n, "message"))
	}
	return text
}
