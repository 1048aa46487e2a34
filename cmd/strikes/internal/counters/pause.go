package counters

import (
	"context"
	"errors"
	"fmt"

	"github.com/strikesmq/strikes/cmd/strikes/internal/change"
	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/records"
)

// Pause stops the consumers of a queue, and waits until they have stopped.
func (c *Command) Pause(ctx context.Context, queue string) error {
	why, err := c.Note.Note()
	if err != nil {
		return err
	}
	if c.Wait < 0 {
		return cli.Refused("wait", c.Wait, "0 or more")
	}
	if err := c.RefuseMissing(ctx, queue); err != nil {
		return err
	}
	return c.WithQueue(ctx, queue, func(q *records.Queue) error {
		plan, err := q.PlanPause(ctx, why)
		if err != nil {
			return err
		}
		return c.changePause(ctx, q, plan)
	})
}

// Resume ends the pause of a queue.
func (c *Command) Resume(ctx context.Context, queue string) error {
	return c.WithQueue(ctx, queue, func(q *records.Queue) error {
		plan, err := q.PlanResume(ctx, c.Given())
		if err != nil {
			return err
		}
		return c.changePause(ctx, q, plan)
	})
}

func (c *Command) changePause(ctx context.Context, q *records.Queue, plan records.Pause) error {
	var running error
	do := func(ctx context.Context, p *records.Pause) (err error) {
		if err = q.ChangePause(ctx, p); err == nil && p.Paused {
			p.Consumers, err = q.Stopping(ctx, c.Wait)
			running = c.stillRunning(p.Consumers)
		}
		return err
	}
	err := change.Change[records.Pause]{Steps: []records.Pause{plan}, Do: do, Text: render.Pause}.Make(ctx, c.Streams,
		c.Options)
	return errors.Join(err, running)
}

// stillRunning names the consumers that have not stopped.
func (c *Command) stillRunning(all []records.Consumer) error {
	n := 0
	for _, consumer := range all {
		if !consumer.Stopped {
			n++
			fmt.Fprintln(c.Err, render.StillRunning(consumer))
		}
	}
	if n == 0 || c.Wait == 0 {
		return nil
	}
	return fmt.Errorf("paused, but %s did not stop within %v", printable.Plural(n, "process"), c.Wait)
}
