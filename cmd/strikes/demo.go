package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/console"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// demo is one run of the command. Two consumer processes handle twenty orders, one of which fails twice, one always,
// and one kills the processes that handle it. The proof at the end asks the broker and the store.
type demo struct {
	cli.Streams

	amqpURL, storeURL, kind string
	console                 bool

	broker        *connect.Broker
	managementURL string // of a private broker
	store         *counter.Counter
	queue         string // and prefix of the store's keys
	orders        []order
}

func (a *app) demoCommand() *cobra.Command {
	d := demo{Streams: a.Streams, orders: demoOrders()}
	cmd := &cobra.Command{
		Use: "demo", Short: "watch two consumers retry, survive a crash and dead-letter", Args: cobra.ExactArgs(0),
		Example: "  strikes demo\n  strikes demo --console",
		Long: `Starts a private RabbitMQ and an embedded store, unless others are given,
publishes 20 orders and handles them in two processes. One order fails twice,
one always, and one kills the first processes that handle it. Then the broker
and the store prove how each order ended: exit 1 if anything is wrong. At the
end it removes all that it made.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&d.amqpURL, "amqp-url", "", "the broker, as `URL`")
	cli.FromEnvOr(f, "amqp-url", "AMQP_URL")
	cli.DefaultText(f, "amqp-url", "a private one")
	f.StringVar(&d.storeURL, "store-url", "", "the store, as `URL`")
	cli.FromEnvOr(f, "store-url", "REDIS_URL")
	cli.DefaultText(f, "store-url", "an embedded one")
	f.StringVar(&d.kind, "type", string(topology.Quorum), "declare queues of this `TYPE`: quorum or classic")
	f.BoolVar(&d.console, "console", false, "at the end, serve the console on the demo's queue until interrupted")
	cli.OneOf(cmd, "type", "quorum", "classic")
	return cmd
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.Out, format+"\n", args...) }

// run shows the demo and leaves nothing behind. It returns an error if an order did not end as it must.
func (d *demo) run(ctx context.Context) (err error) {
	kind, err := queueType(d.kind)
	if err != nil {
		return err
	}
	d.queue = "strikes-demo-" + uuid.NewString()[:8]
	undo := func(f func() error) { err = errors.Join(err, f()) }
	if d.amqpURL == "" {
		d.say("starting a private RabbitMQ")
		private, err := startRabbitMQ(ctx, servers.RabbitMQOptions{Management: d.console})
		if err != nil {
			return err
		}
		defer undo(private.Close)
		d.amqpURL, d.managementURL = private.URL, private.ManagementURL
	}
	if d.broker, err = connect.NewBroker(d.amqpURL, "strikes demo"); err != nil {
		return err
	}
	store := setting.RedactURL(d.storeURL)
	if d.storeURL == "" {
		embedded := miniredis.NewMiniRedis()
		if err := embedded.StartAddr("127.0.0.1:0"); err != nil {
			return err
		}
		defer embedded.Close()
		d.storeURL, store = "redis://"+embedded.Addr(), "embedded"
	}
	if d.store, err = connect.OpenStore(ctx, connect.Patient(d.storeURL), d.queue); err != nil {
		return err
	}
	defer undo(d.store.Close)
	defer undo(func() error { return d.remove(ctx) })
	name, err := d.declare(ctx, kind)
	if err != nil {
		return err
	}
	d.say("%s, store %s; queue %s with %d orders, %d retries allowed", name, store, d.queue, len(d.orders), demoRetries)
	if err := d.publish(ctx); err != nil {
		return err
	}
	return d.play(ctx)
}

// startRabbitMQ starts a private RabbitMQ.
func startRabbitMQ(ctx context.Context, opts servers.RabbitMQOptions) (*servers.RabbitMQ, error) {
	private, err := servers.StartRabbitMQ(ctx, opts)
	if errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%w; install it (apt-get install rabbitmq-server, or brew install rabbitmq), or name a broker "+
			"with --amqp-url", err)
	}
	return private, err
}

// declare declares the queues, and returns the name of the broker.
func (d *demo) declare(ctx context.Context, kind topology.Type) (name string, err error) {
	err = d.broker.With(ctx, func(conn *amqp.Connection) error {
		version, _ := conn.Properties["version"].(string)
		name = "RabbitMQ " + term.Printable(version, "")
		return topology.Declare(ctx, conn, topology.Spec{Queue: d.queue, Type: kind})
	})
	return name, err
}

func (d *demo) publish(ctx context.Context) error {
	p, err := publisher.New(d.broker.DialToPublish, nil) //nolint:contextcheck // Close ends it
	if err != nil {
		return err
	}
	msgs := make([]publisher.Message, len(d.orders))
	for i, o := range d.orders {
		body, err := json.Marshal(o)
		if err != nil {
			return errors.Join(err, p.Close())
		}
		msgs[i] = publisher.Message{Key: d.queue, Publishing: amqp.Publishing{MessageId: o.ID,
			ContentType: "application/json", Body: body}}
	}
	return errors.Join(p.PublishAll(ctx, msgs), p.Close())
}

// play lets the consumers handle the orders, and prints the proof.
func (d *demo) play(ctx context.Context) error {
	began := time.Now()
	acked, err := d.watch(ctx)
	if err != nil {
		return err
	}
	e, err := d.gather(ctx)
	if err != nil {
		return err
	}
	e.acked = acked
	if !d.prove(e, time.Since(began)) {
		return errors.New("demo: an order did not end as it must")
	}
	if d.console {
		return d.showConsole(ctx)
	}
	return nil
}

// showConsole serves the console on the demo's queue, at a free port. It ends with ctx.
func (d *demo) showConsole(ctx context.Context) error {
	need, err := managementOf(ctx, d.broker, d.managementURL)
	if err != nil {
		return err
	}
	c, err := console.New(console.Options{
		Store: d.store, Dial: d.broker.Dial, VHost: d.broker.VHost, Queues: []string{d.queue}, Actor: thisUser(),
		Management: need.Management, HTTPClient: need.HTTPClient,
		Allow: console.Verbs{console.VerbReplay, console.VerbReset, console.VerbSkip, console.VerbLimit, console.VerbPause},
	})
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprint(d.Err, "the console is at the URL below; interrupt to end the demo\n")
	at := pages{address: "127.0.0.1:0"}
	return at.serve(ctx, c, d.Out)
}

// remove deletes the queues and records of the demo, also after an interruption.
func (d *demo) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var errs []error
	for _, o := range d.orders {
		_, err := d.store.Admin().Forget(ctx, d.broker.VHost, d.queue, o.ID)
		errs = append(errs, err)
	}
	errs = append(errs, d.broker.With(ctx, func(conn *amqp.Connection) error {
		return broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
			_, queue := ch.QueueDelete(d.queue, false, false, false)
			exchange := ch.ExchangeDelete(broker.ExchangeFor(d.queue), false, false)
			_, dead := ch.QueueDelete(broker.DeadLetterQueueFor(d.queue), false, false, false)
			return errors.Join(queue, exchange, dead)
		})
	}))
	return errors.Join(errs...)
}
