package runner

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/management"
)

// Run consumes a queue with a command, or an endpoint, as the handler.
func Run(ctx context.Context, s cli.Streams, o Options, queue string, command []string) error {
	settings, err := o.settings(queue)
	if err != nil {
		return err
	}
	does, err := o.work(s, queue, command)
	if err != nil {
		return err
	}
	defer does.close()
	b, err := o.Broker()
	if err != nil {
		return err
	}
	store, err := o.StoreForSteps(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	conn, err := b.Dial(ctx)
	if err != nil {
		return err
	}
	settings.Counter = store
	findManagement(ctx, s, b, conn, &settings)
	w := &worker{
		consumer: settings, next: connect.After(conn, b.Dial), work: does,
		idle: newIdle(o.ExitWhenIdle),
		log:  cli.NewLogger(s.Err, o.Verbose),
	}
	decisions := &Lines{To: s.Err, All: o.Verbose}
	if o.JSON {
		*decisions = Lines{To: s.Out, All: true, JSON: true}
	}
	w.consumer.Observer = observers{decisions, w.idle}
	if o.HealthAddr != "" {
		var probes health
		stop, err := probes.serve(ctx, o.HealthAddr, s.Err)
		if err != nil {
			return errors.Join(err, conn.Close())
		}
		defer stop()
		w.consumer.Consuming = probes.consuming.Store
	}
	return o.NoQueue(ctx, b, queue, w.run(ctx, s.Now))
}

// findManagement gives a consumer the management API at its usual address, like the doctor, unless one was given. It is
// silent if none answers: most consumers do without, and the check warns of what it cannot see.
func findManagement(ctx context.Context, s cli.Streams, b *connect.Broker, conn *amqp.Connection,
	c *consumer.Consumer) {
	if c.Management != "" {
		return
	}
	need, err := b.Management(ctx, conn, inspect.Need{})
	if errors.Is(err, management.ErrDenied) {
		fmt.Fprintf(s.Err, "strikes: continuing without the management API (none was given, and its usual address was "+
			"tried): %s\n",
			term.Printable(err.Error(), ""))
	}
	c.Management, c.HTTPClient = need.Management, need.HTTPClient
}
