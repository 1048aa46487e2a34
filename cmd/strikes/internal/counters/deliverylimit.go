package counters

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/findings"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
)

// AddDeliveryLimit adds the flags of a verb that asks whether the queue's delivery limit allows its attempts.
func (c *Command) AddDeliveryLimit(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.Unchecked, "unchecked", false,
		"do not ask the broker whether the queue's delivery limit allows as many attempts")
	c.AddManagement(cmd)
}

// checkRetries refuses a number of retries before which the broker would dead-letter the message by itself.
func (c *Command) checkRetries(ctx context.Context, queue string, retries int) error {
	if c.Unchecked {
		return nil
	}
	b, err := c.Broker()
	if err != nil {
		return err
	}
	if vhost := c.VHost; vhost != "" && vhost != b.VHost {
		return cli.Misusef("the broker's URL is of virtual host %q, not %q, so the queue's delivery limit cannot be seen "+
			"(--unchecked skips this check)", b.VHost, vhost)
	}
	api, err := c.Management()
	if err != nil {
		return err
	}
	need := inspect.Need{Queue: queue, MaxRetries: retries, Management: api}
	err = b.With(ctx, func(conn *amqp.Connection) error {
		if need.Management == "" {
			need, _ = b.Management(ctx, conn, need) // without the API, AMQP shows the argument
		}
		return c.checkDeliveryLimit(ctx, conn, need)
	})
	err = c.NoQueue(ctx, b, queue, err)
	if err != nil && cli.ExitCode(err) != cli.ExitInterrupted {
		err = fmt.Errorf("%w\n(--unchecked skips this check)", err)
	}
	return err
}

// checkDeliveryLimit compares a number of retries with the delivery limit of the queue. Other problems of the queue are
// left to the checks of its consumers.
func (c *Command) checkDeliveryLimit(ctx context.Context, conn *amqp.Connection, need inspect.Need) error {
	found, err := doctor.DeliveryLimit(ctx, conn, need)
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.Severity == inspect.Error {
			return cli.Misusef("queue %s: %s", term.Shown(need.Queue), findings.Text(f))
		}
		fmt.Fprintf(c.Err, "strikes: queue %s: %s\n", term.Shown(need.Queue), term.Printable(findings.Text(f), "\n"))
	}
	return nil
}
