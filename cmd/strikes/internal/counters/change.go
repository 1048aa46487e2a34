package counters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/change"
	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// Pause stops the consumers of a queue, and waits until they have stopped.
func (c *Command) Pause(ctx context.Context, queue string) error {
	if c.Wait < 0 {
		return cli.Refused("wait", c.Wait, "0 or more")
	}
	c.check = c.RefuseMissing
	return c.noted(ctx, ops.VerbPause, queue, "")
}

// Resume ends the pause of a queue, and closes its breaker.
func (c *Command) Resume(ctx context.Context, queue string) error {
	if c.Count < 0 || c.Count > 24*time.Hour {
		return cli.Refused("count", c.Count, "0 to 24h0m0s")
	}
	return c.change(ctx, ops.VerbResume, queue, ops.Ask{Note: c.Given(), Count: c.Count}, "")
}

// Skip has a message dead-lettered at its next step.
func (c *Command) Skip(ctx context.Context, queue, id string) error {
	return c.noted(ctx, ops.VerbSkip, queue, id)
}

// Reset forgets what is counted of messages.
func (c *Command) Reset(ctx context.Context, queue string, ids []string) error {
	return c.noted(ctx, ops.VerbReset, queue, ids...)
}

// noted makes a change that needs a reason.
func (c *Command) noted(ctx context.Context, verb, queue string, ids ...string) error {
	note, err := c.Note.Note()
	if err != nil {
		return err
	}
	return c.change(ctx, verb, queue, ops.Ask{Note: note, Wait: c.Wait}, ids...)
}

// change plans a change for each id, passes over those of which nothing is counted, asks, and makes the changes.
func (c *Command) change(ctx context.Context, verb, queue string, ask ops.Ask, ids ...string) error {
	return c.WithQueue(ctx, queue, func(q *ops.Queue) error {
		if c.check != nil {
			if err := c.check(ctx, q.Name); err != nil {
				return err
			}
		}
		var plans []ops.Plan
		var none []error
		for _, ask.ID = range ids {
			plan, err := ops.ChangeOf(verb).Plan(ctx, q, ask)
			switch {
			case errors.Is(err, ops.ErrNone):
				none = append(none, err)
			case err != nil:
				return err
			default:
				plans = append(plans, plan)
			}
		}
		if len(plans) == 0 {
			return errors.Join(none...)
		}
		for _, err := range none {
			fmt.Fprintf(c.Err, "strikes: %s\n", term.Printable(err.Error(), ""))
		}
		err := change.Make(ctx, c.Streams, c.Options, q, plans)
		if p, pauses := plans[0].(*ops.Pause); pauses {
			err = errors.Join(err, c.stillRunning(p.Running()))
		}
		return err
	})
}

// missed is how long after its last read a process is dead or cut off.
const missed = 3 * time.Second

// stillRunning names the consumers that have not stopped.
func (c *Command) stillRunning(all []ops.Consumer) error {
	for _, running := range all {
		why := "a handler runs"
		if running.Ago > missed {
			why = fmt.Sprintf("it has not asked the store for %s: it is dead, or does not reach the store",
				term.Rough(running.Ago))
		}
		fmt.Fprintf(c.Err, "not stopped: %s; %s\n", term.Shown(running.Consumer), why)
	}
	if len(all) == 0 || c.Wait == 0 {
		return nil
	}
	return fmt.Errorf("paused, but %s did not stop within %v", printable.Plural(len(all), "process"), c.Wait)
}
