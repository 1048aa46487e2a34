package main

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
)

// roomOptions are the flags of a verb that asks for room.
type roomOptions struct {
	storeOptions

	unchecked bool
}

func (o *roomOptions) addTo(cmd *cobra.Command) {
	o.storeOptions.addTo(cmd)
	cmd.Flags().BoolVar(&o.unchecked, "unchecked", false, "do not ask the broker whether the queue's delivery limit leaves room")
	o.AddManagement(cmd, "which reports a delivery limit by policy")
}

// checkRoom refuses a number of retries before which the broker would dead-letter the message by itself.
func (a *app) checkRoom(ctx context.Context, o roomOptions, queue string, retries int) error {
	if o.unchecked {
		return nil
	}
	b, err := o.Broker()
	if err != nil {
		return err
	}
	if vhost := o.VHost; vhost != "" && vhost != b.VHost {
		return cli.Misusef("the broker's URL is of virtual host %q, not %q, so the queue's delivery limit cannot be seen (--unchecked skips this check)", b.VHost, vhost)
	}
	api, err := o.Management()
	if err != nil {
		return err
	}
	need := inspect.Need{Queue: queue, MaxRetries: retries, Management: api}
	err = b.With(ctx, func(conn *amqp.Connection) error {
		if need.Management == "" {
			need, _ = b.Management(ctx, conn, need) // without the API, AMQP shows the argument
		}
		return a.room(ctx, conn, need)
	})
	if err != nil && cli.ExitCode(err) != cli.ExitInterrupted {
		err = fmt.Errorf("%w\n(--unchecked skips this check)", err)
	}
	return err
}

// room compares a number of retries with the delivery limit of the queue. Other problems of the queue are left to the
// checks of its consumers.
func (a *app) room(ctx context.Context, conn *amqp.Connection, need inspect.Need) error {
	findings, err := doctor.Room(ctx, conn, need)
	if err != nil {
		return err
	}
	for _, f := range topologyFindings(findings) {
		if f.Severity == inspect.Error.String() {
			return cli.Misusef("queue %s: %s", term.Shown(need.Queue), advice(f))
		}
		fmt.Fprintf(a.Err, "strikes: queue %s: %s\n", term.Shown(need.Queue), term.Printable(advice(f), "\n"))
	}
	return nil
}

// advice returns a finding, its impact, its fix and the command that fixes it, a line each.
func advice(f finding) string {
	text := fmt.Sprintf("%s\nimpact: %s\nfix: %s", f.Seen, f.Impact, f.Fix)
	if f.Command != "" {
		text += "\nrun: " + f.Command
	}
	return text
}
