package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

const (
	demoConsumers = 2
	demoTimeout   = 20 * time.Second // for the orders
	demoCleanUp   = 10 * time.Second
)

func (a *app) demoCommand() *urfave.Command {
	return &urfave.Command{
		Name:  "demo",
		Usage: "watch two consumers retry, survive a crash and dead-letter, and see it proven",
		Description: "Starts a private RabbitMQ and an embedded store, unless it is given others, publishes 20 orders and handles them\n" +
			"in two processes. One order fails twice, one always, and one kills each process that handles it until it is found out.\n" +
			"Then it asks the broker, the store and a ledger of all runs what became of them: exit 1 if anything is off.\n" +
			"Nothing is left running or lying about.",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "amqp-url", Sources: env("amqp-url", "AMQP_URL"), DefaultText: "a private one", Usage: "the broker, as `URL`"},
			&urfave.StringFlag{Name: "redis-url", Sources: env("redis-url", "REDIS_URL"), DefaultText: "an embedded one", Usage: "the store, as `URL`"},
			&urfave.StringFlag{Name: "type", Value: string(topology.Quorum), Usage: "of the queues: `TYPE` quorum or classic"},
			&urfave.BoolFlag{Name: "install", Usage: "install RabbitMQ if it is missing, with apt-get as root or with brew"},
			jsonFlag("print the verdict as one JSON object; the story goes to stderr"),
		},
		Action: a.do(a.demo),
	}
}

func (a *app) demo(ctx context.Context, c *urfave.Command) (err error) {
	if _, err := positional(c); err != nil {
		return err
	}
	kind, err := queueType(c)
	if err != nil {
		return err
	}
	story := a.Out
	if c.Bool("json") {
		story = a.Err
	}
	d := &demonstration{orders: demoOrders(), story: story, stderr: a.Err}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.open(ctx, c); err != nil {
		return err
	}
	v, err := d.run(ctx, kind)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = jsonl.NewEncoder(a.Out).Encode(v)
	} else {
		v.print(a.Out)
	}
	if err == nil && !v.OK {
		err = errors.New("demo: the outcome is not what it must be")
	}
	return err
}

// demonstration is one demo and what it has to put away.
type demonstration struct {
	orders []order
	story  io.Writer
	stderr io.Writer

	broker   *connect.Broker
	store    *counter.Counter
	ledger   *ledger
	queue    string
	prefix   string
	redisURL string
	brokerIs string
	storeIs  string
	closing  []func() error
}

func (d *demonstration) say(format string, args ...any) {
	fmt.Fprintf(d.story, format+"\n", args...)
}

// close undoes in reverse what open and run did.
func (d *demonstration) close() error {
	var errs []error
	for i := len(d.closing) - 1; i >= 0; i-- {
		errs = append(errs, d.closing[i]())
	}
	return errors.Join(errs...)
}

func (d *demonstration) later(f func() error) { d.closing = append(d.closing, f) }

// open gets hold of a broker, a store and a ledger.
func (d *demonstration) open(ctx context.Context, c *urfave.Command) error {
	name := uuid.NewString()[:8]
	d.queue, d.prefix = "strikes-demo-"+name, "strikes-demo-"+name
	amqpURL, err := d.openBroker(ctx, c)
	if err != nil {
		return err
	}
	if d.broker, err = connect.NewBroker(amqpURL, "strikes demo"); err != nil {
		return err
	}
	if err := d.openStore(ctx, c.String("redis-url")); err != nil {
		return err
	}
	if d.ledger, err = newLedger(); err != nil {
		return err
	}
	d.later(d.ledger.file.Close)
	return nil
}

func (d *demonstration) openBroker(ctx context.Context, c *urfave.Command) (url string, err error) {
	if url := c.String("amqp-url"); url != "" {
		return url, nil
	}
	if c.Bool("install") {
		if err := servers.Install(ctx, d.stderr, servers.RabbitMQServer); err != nil {
			return "", err
		}
	}
	d.say("starting a private RabbitMQ")
	private, err := servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{})
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%w: install it (--install does, as root or with brew), or name a broker with --amqp-url", err)
	}
	if err != nil {
		return "", err
	}
	d.later(private.Close)
	return private.URL, nil
}

func (d *demonstration) openStore(ctx context.Context, url string) (err error) {
	d.redisURL, d.storeIs = url, "Redis at "+setting.RedactURL(url)
	if url == "" {
		embedded := miniredis.NewMiniRedis()
		if err := embedded.StartAddr("127.0.0.1:0"); err != nil {
			return err
		}
		d.later(func() error { embedded.Close(); return nil })
		d.redisURL, d.storeIs = "redis://"+embedded.Addr(), "embedded"
	}
	if d.store, err = connect.OpenStore(ctx, d.redisURL, d.prefix); err != nil {
		return err
	}
	d.later(d.store.Close)
	return nil
}

// run lets the consumers handle the orders, and judges.
func (d *demonstration) run(ctx context.Context, kind topology.Type) (verdict, error) {
	d.later(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), demoCleanUp)
		defer cancel()
		return d.remove(ctx)
	})
	if err := d.publish(ctx, kind); err != nil {
		return verdict{}, err
	}
	began := time.Now()
	d.watch(ctx)
	if ctx.Err() != nil {
		return verdict{}, ctx.Err()
	}
	e, err := d.gather(ctx)
	if err != nil {
		return verdict{}, err
	}
	v := newVerdict(d.orders, e)
	v.Broker, v.Store, v.Seconds = d.brokerIs, d.storeIs, time.Since(began).Seconds()
	for _, r := range append(e.listed, e.kept...) {
		v.Counters = append(v.Counters, recordOf(r, time.Now()))
	}
	return v, nil
}

// publish declares the queues and publishes the orders.
func (d *demonstration) publish(ctx context.Context, kind topology.Type) error {
	err := d.broker.With(ctx, func(conn *amqp.Connection) error {
		version, _ := conn.Properties["version"].(string)
		d.brokerIs = "RabbitMQ " + term.Printable(version, "")
		return topology.Declare(ctx, conn, topology.Spec{Queue: d.queue, Type: kind})
	})
	if err != nil {
		return err
	}
	d.say("%s, store %s; queue %s with %d orders, %d retries allowed", d.brokerIs, d.storeIs, d.queue, len(d.orders), demoRetries)
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
		msgs[i] = publisher.Message{Key: d.queue, Publishing: amqp.Publishing{MessageId: o.ID, ContentType: "application/json", Body: body}}
	}
	return errors.Join(p.PublishAll(ctx, msgs), p.Close())
}

// watch runs the consumers until every order is settled, as they say, and tells what they say. It does not believe them:
// the verdict does without.
func (d *demonstration) watch(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, demoTimeout)
	defer stop()
	f := &fleet{
		args: []string{"demo-worker", d.queue}, ledger: d.ledger, stderr: d.stderr,
		// in the environment, as a command line is there for everybody to read
		env: append(os.Environ(), "STRIKES_AMQP_URL="+d.broker.URL, "STRIKES_REDIS_URL="+d.redisURL, "STRIKES_PREFIX="+d.prefix),
	}
	f.start(ctx, demoConsumers)
	settled, tale := map[string]bool{}, narrator{map[string]int{}}
	for e := range f.events {
		d.say("%s", tale.line(e))
		if e.settles() {
			settled[e.decision.ID] = true
		}
		if len(settled) == len(d.orders) {
			stop()
		}
	}
}
