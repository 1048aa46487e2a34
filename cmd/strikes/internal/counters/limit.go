package counters

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/ops"
)

// GetLimit shows the limit that is set for a queue, or for its message c.ID.
func (c *Command) GetLimit(ctx context.Context, queue string) error {
	return c.WithQueue(ctx, queue, func(q *ops.Queue) error {
		get := q.Limit
		if c.ID != "" {
			get = func(ctx context.Context) (ops.Limit, error) { return q.OwnLimit(ctx, c.ID) }
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
	ask, err := c.limit(counted, aged)
	if err != nil {
		return err
	}
	if ask.Note, err = c.Note.Note(); err != nil {
		return err
	}
	c.check = func(ctx context.Context, queue string) error {
		if ask.MaxRetries != nil {
			return c.checkRetries(ctx, queue, *ask.MaxRetries)
		}
		return c.RefuseMissing(ctx, queue)
	}
	return c.change(ctx, ops.VerbSetLimit, queue, ask, c.ID)
}

func (c *Command) limit(counted, aged bool) (a ops.Ask, err error) {
	switch {
	case !counted && !aged:
		return a, cli.Misusef("no limit is given; give --max-retries, --max-age, or both")
	case aged && c.ID != "":
		return a, cli.Misusef("--max-age is of a whole queue; a message with a limit of its own is never too old")
	case counted && (c.MaxRetries < 0 || c.MaxRetries > counter.MaxOverride):
		return a, cli.Refused("max-retries", c.MaxRetries, fmt.Sprintf("0 to %d", counter.MaxOverride))
	case aged && (c.MaxAge < 0 || c.MaxAge%time.Millisecond != 0):
		return a, cli.Refused("max-age", c.MaxAge, "0 or more, in whole milliseconds")
	}
	if counted {
		a.MaxRetries = &c.MaxRetries
	}
	if aged {
		a.MaxAge = &c.MaxAge
	}
	return a, nil
}

// ClearLimit removes the limit of a queue, or that of its message c.ID, which needs a reason.
func (c *Command) ClearLimit(ctx context.Context, queue string) error {
	note := c.Given()
	if c.ID != "" {
		var err error
		if note, err = c.Note.Note(); err != nil {
			return err
		}
	}
	return c.change(ctx, ops.VerbClearLimit, queue, ops.Ask{Note: note}, c.ID)
}
