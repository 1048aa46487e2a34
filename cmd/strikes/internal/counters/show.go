package counters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/ops"
)

// List lists the records of a queue.
func (c *Command) List(ctx context.Context, queue string) error {
	if c.Most < 0 {
		return cli.Refused("limit", c.Most, "0 or more")
	}
	return c.WithQueue(ctx, queue, func(q *ops.Queue) error {
		override, err := q.Override(ctx)
		if err != nil {
			return err
		}
		out, n := render.Records(c.Out, c.JSON), 0
		for r, err := range q.List(ctx, c.Most) {
			if err != nil {
				return errors.Join(out.Flush(), err)
			}
			if err := out.Row(ops.Of(r, override, time.Now())); err != nil {
				return err
			}
			n++
		}
		if n == 0 {
			return q.None("nothing is counted")
		}
		return out.Flush()
	})
}

// Get shows the records of one message.
func (c *Command) Get(ctx context.Context, queue, id string) error {
	return c.WithQueue(ctx, queue, func(q *ops.Queue) error {
		all, err := q.Message(ctx, id)
		if err != nil {
			return err
		}
		override, err := q.Override(ctx)
		if err != nil {
			return err
		}
		for i, r := range all {
			if err := c.show(ops.Of(r, override, time.Now()), i > 0); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *Command) show(r ops.Record, another bool) error {
	switch {
	case c.JSON:
		return jsonl.NewEncoder(c.Out).Encode(r)
	case another:
		fmt.Fprintln(c.Out)
	}
	return render.Record(c.Out, r)
}
