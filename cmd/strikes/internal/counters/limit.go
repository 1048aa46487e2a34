package counters

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/change"
	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/records"
)

// GetLimit shows the limit that is set for a queue, or for its message c.ID.
func (c *Command) GetLimit(ctx context.Context, queue string) error {
	return c.WithQueue(ctx, queue, func(q *records.Queue) error {
		get := q.Limit
		if c.ID != "" {
			get = func(ctx context.Context) (records.Limit, error) { return q.OwnLimit(ctx, c.ID) }
		}
		l, err := get(ctx)
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

// SetLimit sets the limit of a queue: c.MaxRetries if counted, and c.MaxAge if aged; or c.MaxRetries of its message
// c.ID.
func (c *Command) SetLimit(ctx context.Context, queue string, counted, aged bool) error {
	o, err := c.override(counted, aged)
	if err != nil {
		return err
	}
	if o.Note, err = c.Note.Note(); err != nil {
		return err
	}
	return c.WithQueue(ctx, queue, func(q *records.Queue) error {
		if o.MaxRetries != nil {
			if err := c.checkRetries(ctx, q.Name, *o.MaxRetries); err != nil {
				return err
			}
		} else if err := c.RefuseMissing(ctx, q.Name); err != nil {
			return err
		}
		plan, err := records.Limit{}, error(nil)
		if c.ID != "" {
			plan, err = q.PlanOwnLimit(ctx, c.ID, c.MaxRetries+1, o.Note)
		} else {
			plan, err = q.PlanLimit(ctx, o)
		}
		if err != nil {
			return err
		}
		return c.changeLimit(ctx, q, plan)
	})
}

func (c *Command) override(counted, aged bool) (o counter.Override, err error) {
	switch {
	case !counted && !aged:
		return o, cli.Misusef("no limit is given; give --max-retries, --max-age, or both")
	case aged && c.ID != "":
		return o, cli.Misusef("--max-age is of a whole queue; a message with a limit of its own is never too old")
	case counted && (c.MaxRetries < 0 || c.MaxRetries > counter.MaxOverride):
		return o, cli.Refused("max-retries", c.MaxRetries, fmt.Sprintf("0 to %d", counter.MaxOverride))
	case aged && (c.MaxAge < 0 || c.MaxAge%time.Millisecond != 0):
		return o, cli.Refused("max-age", c.MaxAge, "0 or more, in whole milliseconds")
	}
	if counted {
		o.MaxRetries = &c.MaxRetries
	}
	if aged {
		o.MaxAge = &c.MaxAge
	}
	return o, nil
}

// ClearLimit removes the limit of a queue, or that of its message c.ID, which needs a reason.
func (c *Command) ClearLimit(ctx context.Context, queue string) error {
	why := c.Given()
	if c.ID != "" {
		var err error
		if why, err = c.Note.Note(); err != nil {
			return err
		}
	}
	return c.WithQueue(ctx, queue, func(q *records.Queue) error {
		plan, err := records.Limit{}, error(nil)
		if c.ID != "" {
			plan, err = q.PlanOwnLimit(ctx, c.ID, 0, why)
		} else {
			plan, err = q.PlanClear(ctx, why)
		}
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
		question = fmt.Sprintf("%s of queue %s failed %s already, and would be dead-lettered at the next step. Go on?",
			printable.Plural(n, "message"), term.Shown(q.Name), plan.Much())
	}
	return change.Change[records.Limit]{Steps: []records.Limit{plan}, Question: question, Do: q.ChangeLimit,
		Text: limitChanged}.Make(ctx, c.Streams, c.Options)
}

func limitChanged(l records.Limit) string {
	text := term.Shown(cmp.Or(l.ID, l.Queue)) + ": "
	if !*l.Done {
		text += "would be "
	}
	if l.Clears() {
		text += "cleared"
	} else {
		text += "set to " + l.Text()
	}
	if n := l.DeadLetters; n > 0 {
		text += fmt.Sprintf("; dead-letters %s that failed %s already", printable.Plural(n, "message"), l.Much())
	}
	return text
}
