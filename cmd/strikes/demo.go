package main

import (
	"cmp"
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
	"github.com/spf13/pflag"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// demo is one run of the command. Two consumer processes handle twenty orders, one of which fails twice, one always,
// and one kills the processes that handle it. The proof at the end asks the broker, the store and a ledger.
type demo struct {
	cli.Streams

	amqpURL, storeURL string
	database          string // kind of the private database that is the store; empty: none
	flags             *pflag.FlagSet

	broker *connect.Broker
	store  *counter.Counter
	ledger ledger
	queue  string // and prefix of the store's keys
	orders []order
}

func (a *app) demoCommand() *cobra.Command {
	d := demo{Streams: a.Streams, orders: demoOrders()}
	cmd := &cobra.Command{
		Use: "demo", Short: "watch two consumers retry, survive a crash and dead-letter",
		Example: "  strikes demo\n  strikes demo --store postgres",
		Long: `Starts a private RabbitMQ, unless a broker is given, and an embedded store. It
publishes 20 orders and handles them in two processes. One order fails twice,
one always, and one kills the first processes that handle it. Then the broker,
the store and a ledger of all attempts prove how each order ended: exit 1 if
anything is wrong. At the end it removes all that it made.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	f := cmd.Flags()
	d.flags = f
	f.StringVar(&d.amqpURL, "amqp-url", "", "the broker, as `URL`")
	cli.FromEnvOr(f, "amqp-url", "AMQP_URL")
	cli.DefaultText(f, "amqp-url", "a private one")
	cli.OneOf(cmd, &d.database, "store", "keep the counts in a private database: `KIND` postgres or mysql", "postgres",
		"mysql")
	return cmd
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.Out, format+"\n", args...) }

// run shows the demo and leaves nothing behind. It returns an error if an order did not end as it must.
func (d *demo) run(ctx context.Context) (err error) {
	d.queue = "strikes-demo-" + uuid.NewString()[:8]
	undo := func(f func() error) { err = errors.Join(err, f()) }
	called := "strikes demo" // which starts the servers
	if d.amqpURL != "" {
		called = cli.Called(d.flags, "amqp-url")
	} else {
		d.say("starting a private RabbitMQ")
		private, err := servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{})
		if errors.Is(err, exec.ErrNotFound) {
			err = fmt.Errorf("%w; install it (apt-get install rabbitmq-server, or brew install rabbitmq), or name a broker "+
				"with --amqp-url", err)
		}
		if err != nil {
			return err
		}
		defer undo(private.Close)
		d.amqpURL = private.URL
	}
	if d.broker, err = connect.NewBroker(d.amqpURL, "strikes demo", called); err != nil {
		return err
	}
	if d.database != "" {
		private, err := d.startDatabase(ctx)
		if err != nil {
			return err
		}
		defer undo(private.Close)
	}
	store := cmp.Or(demoDatabases[d.database].name, "embedded")
	if d.database == "" {
		embedded := miniredis.NewMiniRedis()
		if err := embedded.StartAddr("127.0.0.1:0"); err != nil {
			return err
		}
		defer embedded.Close()
		d.storeURL = "redis://" + embedded.Addr()
	}
	if d.store, err = connect.OpenStore(ctx, connect.Patient(d.storeURL), d.queue, "strikes demo"); err != nil {
		return err
	}
	defer undo(d.store.Close)
	if d.ledger, err = newLedger(); err != nil {
		return err
	}
	defer undo(d.ledger.remove)
	version, declares := "", false
	defer undo(func() error {
		if !declares {
			return nil
		}
		return d.remove(ctx)
	})
	err = d.broker.With(ctx, func(conn *amqp.Connection) error {
		declares = true
		version, _ = conn.Properties["version"].(string)
		return topology.Declare(ctx, conn, topology.Spec{Queue: d.queue})
	})
	if err != nil {
		return err
	}
	d.say("RabbitMQ %s, store %s; queue %s with %d orders, %d retries allowed", printable.Text(version, ""), store,
		d.queue, len(d.orders), demoRetries)
	if err := d.publish(ctx); err != nil {
		return err
	}
	return d.play(ctx)
}

var demoDatabases = map[string]struct {
	name, url string
	start     func(context.Context, servers.DatabaseOptions) (*servers.Database, error)
}{
	"postgres": {"PostgreSQL", "postgres://postgres@%s/postgres?sslmode=disable", servers.StartPostgreSQL},
	"mysql":    {"MariaDB", "mysql://root@%s/strikes", servers.StartMariaDB},
}

func (d *demo) startDatabase(ctx context.Context) (*servers.Database, error) {
	kind := demoDatabases[d.database]
	d.say("starting a private %s", kind.name)
	private, err := kind.start(ctx, servers.DatabaseOptions{})
	if errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%w; install it, or leave out --store", err)
	}
	if err != nil {
		return nil, err
	}
	d.storeURL = fmt.Sprintf(kind.url, private.Addr)
	if err := connect.DatabaseOf(d.storeURL).Migrate(ctx, d.storeURL); err != nil {
		return nil, errors.Join(err, private.Close())
	}
	return private, nil
}

func (d *demo) publish(ctx context.Context) error {
	p, err := publisher.New(d.broker.Dial, nil)
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

func (d *demo) play(ctx context.Context) error {
	began := time.Now()
	if err := d.watch(ctx); err != nil {
		return err
	}
	ends, left, err := d.gather(ctx)
	if err != nil {
		return err
	}
	wrong := judge(d.orders, ends, left)
	printProof(d.Out, d.orders, wrong, time.Since(began))
	if len(wrong) > 0 {
		return errors.New("demo: an order did not end as it must")
	}
	return nil
}

// remove deletes the queues of the demo, also after an interruption.
func (d *demo) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return d.broker.With(ctx, func(conn *amqp.Connection) error {
		return broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(d.queue, false, false, false)
			if err == nil {
				err = ch.ExchangeDelete(broker.ExchangeFor(d.queue), false, false)
			}
			if err == nil {
				_, err = ch.QueueDelete(broker.DeadLetterQueueFor(d.queue), false, false, false)
			}
			if err != nil {
				return fmt.Errorf("remove queue %q: %w", d.queue, err)
			}
			return nil
		})
	})
}
