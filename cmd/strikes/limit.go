package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

func (a *app) limitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "limit", Short: "set and clear how often messages are retried",
		Example: `  strikes limit set orders --max-retries 10 --why "the bank is slow"
  strikes limit clear orders`,
		Long: "strikes status shows the limit of a queue, and strikes counter get that of a\nmessage.",
	}
	cmd.AddCommand(a.limitSetCommand(), a.limitClearCommand())
	return cmd
}

// limit is one run of a verb on the limit of a queue, or of one of its messages.
type limit struct {
	changeVerb

	maxRetries int
	maxAge     time.Duration
	unchecked  bool
}

func (a *app) limitVerb() limit { return limit{changeVerb: changeVerb{storeVerb: a.storeVerb()}} }

// addMessage adds --id. An empty ID, such as that of a variable which is not set, is refused: without an ID the limit
// is that of the whole queue.
func (c *limit) addMessage(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.ask.ID, "id", "", "the limit of the message `ID` alone")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("id") && c.ask.ID == "" {
			return cli.Refused("id", "", "the id of a message; leave --id out for the limit of the whole queue")
		}
		return nil
	}
}

func (a *app) limitSetCommand() *cobra.Command {
	c := a.limitVerb()
	cmd := &cobra.Command{
		Use:   "set QUEUE [flags] --why TEXT [--max-retries N] [--max-age TIME]",
		Short: "set how often, or for how long, messages are retried",
		Example: `  strikes limit set orders --max-retries 10 --why "the bank is slow"
  strikes limit set orders --max-age 36h --why "the bank is slow"
  strikes limit set orders --id order-17 --max-retries 20 --why "a big order"`,
		Long: `The limit is in force at each message's next step, on every consumer, whatever
it is configured with, until you clear it. Nothing is restarted.

--max-retries N gives a message N+1 attempts: 0 means no retry. A message that
has failed more than N times is dead-lettered at its next step, so the command
asks first if there are any. The queue's own delivery limit, which the broker
reports, must allow N.

--max-age TIME dead-letters a message that fails later than TIME after its first
failed attempt, whatever its count. Give one of the two flags, or both. What you
do not give stays as it is.

--id ID gives one message a limit of its own, once it has failed. This limit
replaces all others, also a maximal age, until limit clear --id or counter
reset. If the message is dead-lettered already, replay it instead. strikes audit
keeps who set it, when and why.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.set(cmd.Context(), args[0]) },
	}
	cmd.Flags().IntVar(&c.maxRetries, "max-retries", 0,
		"retry a message `N` times after its first failure, then dead-letter it: 0 to 1000")
	cli.DefaultText(cmd.Flags(), "max-retries", "unchanged")
	cli.Age(cmd.Flags(), &c.maxAge, "max-age", "dead-letter messages that fail later than `TIME` after their first "+
		"failed attempt; 0: no limit")
	c.addMessage(cmd)
	cmd.Flags().BoolVar(&c.unchecked, "unchecked", false,
		"do not ask the broker whether the queue's delivery limit allows as many attempts")
	c.AddManagement(cmd)
	c.addNote(cmd)
	c.addChange(cmd, "set", "")
	return cmd
}

func (c *limit) set(ctx context.Context, queue string) error {
	counted, aged := c.Changed("max-retries"), c.Changed("max-age")
	switch {
	case !counted && !aged:
		return cli.Misusef("no limit is given; give --max-retries, --max-age, or both")
	case aged && c.ask.ID != "":
		return cli.Misusef("--max-age is of a whole queue; a message with a limit of its own is never too old")
	case counted && (c.maxRetries < 0 || c.maxRetries > counter.MaxOverride):
		return cli.Refused("max-retries", c.maxRetries, fmt.Sprintf("0 to %d", counter.MaxOverride))
	case aged && (c.maxAge < 0 || c.maxAge%time.Millisecond != 0):
		return cli.Refused("max-age", c.maxAge, "0 or more, in whole milliseconds")
	}
	c.check = c.RefuseMissing
	if counted {
		c.ask.MaxRetries, c.check = &c.maxRetries, c.checkRetries
	}
	if aged {
		c.ask.MaxAge = &c.maxAge
	}
	_, err := c.change(ctx, ops.VerbSetLimit, queue, c.ask.ID)
	return err
}

func (a *app) limitClearCommand() *cobra.Command {
	c := a.limitVerb()
	cmd := &cobra.Command{
		Use: "clear QUEUE", Short: "go back to the limits of the consumers",
		Example: "  strikes limit clear orders",
		Long:    "With --id, --why is required.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.required = c.ask.ID != ""
			_, err := c.change(cmd.Context(), ops.VerbClearLimit, args[0], c.ask.ID)
			return err
		},
	}
	c.addMessage(cmd)
	c.addAudit(cmd)
	c.addChange(cmd, "cleared", "")
	return cmd
}

// checkRetries refuses a number of retries before which the broker would dead-letter the message by itself. It refuses
// the name of a partition, also with --unchecked.
func (c *limit) checkRetries(ctx context.Context, queue string) error {
	if c.unchecked {
		if err := c.RefuseMissing(ctx, queue); !errors.Is(err, broker.ErrNotFound) {
			return err
		}
		return nil
	}
	b, err := c.Broker()
	if err != nil {
		return fmt.Errorf("%w (--unchecked skips this check)", err)
	}
	err = b.With(ctx, func(conn *amqp.Connection) error {
		need, _ := b.Management(ctx, conn, inspect.Need{Queue: queue, MaxRetries: c.maxRetries})
		found, err := doctor.DeliveryLimit(ctx, conn, need) // other problems are left to the checks of the consumers
		for _, f := range found {
			if f.Severity == inspect.Error {
				return cli.Misusef("queue %s: %s", printable.Name(queue), findingText(f))
			}
			fmt.Fprintf(c.Err, "strikes: queue %s: %s\n", printable.Name(queue), printable.Text(findingText(f), "\n"))
		}
		return err
	})
	err = b.NoQueue(queue, err)
	switch {
	case err == nil:
		return c.RefuseMissing(ctx, queue)
	case cli.ExitCode(err) != cli.ExitInterrupted:
		err = fmt.Errorf("%w\n(--unchecked skips this check)", err)
	}
	return err
}
