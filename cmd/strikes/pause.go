package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

func (a *app) pauseCommand() *cobra.Command {
	c := changeVerb{storeVerb: a.storeVerb()}
	cmd := &cobra.Command{
		Use: "pause QUEUE", Short: "stop every consumer of a queue, until it is resumed",
		Example: `  strikes pause orders --why "the database is being moved"`,
		Long: `Within two seconds consumers take no more messages, return those that wait, and
count nothing. Running handlers finish, as at a stop. pause waits for that. It
names the processes that have not stopped (exit 1); the queue is paused
nevertheless. Who, when and why are kept until the queue is resumed. A store
that loses its memory loses the pause, and a pause that no consumer has read for
30 days ends.

The broker deletes an auto-delete queue with its messages once its consumers
stop, and one with x-expires after that time. pause asks first then, and if the
broker cannot say.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.pause(cmd.Context(), args[0]) },
	}
	cmd.Flags().DurationVar(&c.ask.Wait, "wait", 5*time.Second,
		"wait for this `TIME` until all consumers have stopped; 0: do not wait")
	c.addNote(cmd)
	c.addChange(cmd, "paused", "")
	c.AddManagement(cmd)
	return cmd
}

// pause stops the consumers of a queue, and names those that have not stopped in time.
func (c *changeVerb) pause(ctx context.Context, queue string) error {
	if c.ask.Wait < 0 {
		return cli.Refused("wait", c.ask.Wait, "0 or more")
	}
	c.check = c.RefuseMissing
	plans, err := c.change(ctx, ops.VerbPause, queue, "")
	if len(plans) > 0 {
		err = errors.Join(err, c.stillRunning(plans[0].(*ops.Pause).Running()))
	}
	return err
}

func (c *changeVerb) stillRunning(all []ops.Consumer) error {
	for _, running := range all {
		fmt.Fprintf(c.Err, "not stopped: %s; %s\n", printable.Name(running.Consumer),
			cmp.Or(running.Silence(), "a handler runs"))
	}
	if len(all) == 0 || c.ask.Wait == 0 {
		return nil
	}
	return fmt.Errorf("paused, but %s did not stop within %v", printable.Plural(len(all), "process"), c.ask.Wait)
}

func (a *app) resumeCommand() *cobra.Command {
	c := changeVerb{storeVerb: a.storeVerb()}
	cmd := &cobra.Command{
		Use: "resume QUEUE", Short: "end the pause of a queue, and close its breaker",
		Example: "  strikes resume orders\n  strikes resume orders --count 10m",
		Long: `Ends the pause, and closes the breaker, which is open while no message succeeds.
It prints which of the two it ended. Without --count it also ends the time of an
earlier --count. Consumers go on within two seconds. If messages still fail and
none succeeds, one failure is counted, and the breaker opens again two seconds
later. Exit 3 without --count: the queue is not paused, and its breaker is
closed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.ask.Count < 0 || c.ask.Count > 24*time.Hour {
				return cli.Refused("count", c.ask.Count, "0 to 24h0m0s")
			}
			_, err := c.change(cmd.Context(), ops.VerbResume, args[0], "")
			return err
		},
	}
	cmd.Flags().DurationVar(&c.ask.Count, "count", 0, "count every failure for this `TIME`, 24h at most, so that "+
		"messages which always fail are dead-lettered though no message succeeds; do not use it in an outage of a "+
		"system that CMD needs, or after a bad deploy")
	c.addAudit(cmd)
	c.addDryRun(cmd, "resumed")
	c.addOutput(cmd, "print one JSON object")
	return cmd
}

func (a *app) skipCommand() *cobra.Command {
	c := changeVerb{storeVerb: a.storeVerb()}
	cmd := &cobra.Command{
		Use: "skip QUEUE ID", Short: "have a failing message dead-lettered now",
		Example: `  strikes skip orders order-17 --why "cancelled by the customer"`,
		Long: `The message is dead-lettered whatever its limit. One that waits for its backoff
is dead-lettered within two seconds, one that waits in the queue when it is
delivered, and one that waits in a delay queue when it returns. A running
attempt finishes: if it succeeds, the message is handled. The reason is kept
with the dead letter. counter reset cancels a skip. A message without a record
cannot be skipped (exit 3): it has not failed yet, or its failures did not
count. counter list shows the records. Put an ID that begins with - after --.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := c.change(cmd.Context(), ops.VerbSkip, args[0], args[1])
			return err
		},
	}
	c.addNote(cmd)
	c.addChange(cmd, "skipped", "")
	return cmd
}
