// Package demo shows strikes at work: two consumer processes handle twenty orders, one of which fails twice, one
// always, and one kills the processes that handle it. It then proves from the broker, the store and a ledger what
// became of each order.
package demo

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
	consumers      = 2
	ordersTimeout  = 20 * time.Second
	cleanUpTimeout = 10 * time.Second
)

// Options configure a demo.
type Options struct {
	AMQPURL  string        // of the broker; if empty, a private RabbitMQ is started
	RedisURL string        // of the store; if empty, an embedded one is used
	Type     topology.Type // of the queues
	JSON     bool          // print the verdict as one JSON object; the story goes to Err
	Out, Err io.Writer

	// After, if not nil, is called before the demo's servers and queues are removed.
	After func(context.Context, Scene) error
}

// Scene is what a demo leaves behind for After.
type Scene struct {
	Broker *connect.Broker
	Store  *counter.Counter
	Queue  string
}

// Run shows the demo and leaves nothing behind. It returns an error if an order did not end as it must.
func Run(ctx context.Context, opts Options) (err error) {
	d := &demo{Options: opts, orders: orders(), story: opts.Out}
	if d.JSON {
		d.story = d.Err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.open(ctx); err != nil {
		return err
	}
	v, err := d.run(ctx)
	if err != nil {
		return err
	}
	if d.JSON {
		err = jsonl.NewEncoder(d.Out).Encode(v)
	} else {
		v.print(d.Out)
	}
	if err == nil && !v.OK {
		err = errors.New("demo: the outcome is not what it must be")
	}
	if err == nil && d.After != nil {
		err = d.After(ctx, Scene{d.broker, d.store, d.name})
	}
	return err
}

// demo is one demo and what it has to clean up.
type demo struct {
	Options
	orders []order
	story  io.Writer

	broker      *connect.Broker
	store       *counter.Counter
	ledger      *ledger
	killed      map[int]bool // consumers, by pid
	name        string       // of the queue, and prefix of the store's keys
	brokerTitle string
	storeTitle  string
	cleanups    []func() error
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.story, format+"\n", args...) }

// close undoes in reverse what open and run did.
func (d *demo) close() error {
	var errs []error
	for i := len(d.cleanups) - 1; i >= 0; i-- {
		errs = append(errs, d.cleanups[i]())
	}
	return errors.Join(errs...)
}

func (d *demo) cleanup(f func() error) { d.cleanups = append(d.cleanups, f) }

// open connects to a broker and a store, and makes a ledger.
func (d *demo) open(ctx context.Context) (err error) {
	d.name = "strikes-demo-" + uuid.NewString()[:8]
	if err := d.startBroker(ctx); err != nil {
		return err
	}
	if d.broker, err = connect.NewBroker(d.AMQPURL, "strikes demo"); err != nil {
		return err
	}
	if err := d.openStore(ctx); err != nil {
		return err
	}
	if d.ledger, err = newLedger(); err != nil {
		return err
	}
	d.cleanup(d.ledger.file.Close)
	return nil
}

// startBroker starts a private RabbitMQ unless another one is given.
func (d *demo) startBroker(ctx context.Context) error {
	if d.AMQPURL != "" {
		return nil
	}
	d.say("starting a private RabbitMQ")
	private, err := servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{})
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w; install it (apt-get install rabbitmq-server, or brew install rabbitmq), or name a broker "+
			"with --amqp-url", err)
	}
	if err != nil {
		return err
	}
	d.cleanup(private.Close)
	d.AMQPURL = private.URL
	return nil
}

func (d *demo) openStore(ctx context.Context) (err error) {
	d.storeTitle = "Redis at " + setting.RedactURL(d.RedisURL)
	if d.RedisURL == "" {
		embedded := miniredis.NewMiniRedis()
		if err := embedded.StartAddr("127.0.0.1:0"); err != nil {
			return err
		}
		d.cleanup(func() error { embedded.Close(); return nil })
		d.RedisURL, d.storeTitle = "redis://"+embedded.Addr(), "embedded"
	}
	if d.store, err = connect.OpenStore(ctx, connect.Patient(d.RedisURL), d.name); err != nil {
		return err
	}
	d.cleanup(d.store.Close)
	return nil
}

// run lets the consumers handle the orders, and judges.
func (d *demo) run(ctx context.Context) (Verdict, error) {
	d.cleanup(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
		return d.remove(ctx)
	})
	if err := d.publish(ctx); err != nil {
		return Verdict{}, err
	}
	began := time.Now()
	if err := d.watch(ctx); err != nil {
		return Verdict{}, err
	}
	e, err := d.gather(ctx)
	if err != nil {
		return Verdict{}, err
	}
	v := newVerdict(d.orders, e)
	v.Broker, v.Store, v.Seconds = d.brokerTitle, d.storeTitle, time.Since(began).Seconds()
	return v, nil
}

// publish declares the queues and publishes the orders.
func (d *demo) publish(ctx context.Context) error {
	err := d.broker.With(ctx, func(conn *amqp.Connection) error {
		version, _ := conn.Properties["version"].(string)
		d.brokerTitle = "RabbitMQ " + term.Printable(version, "")
		return topology.Declare(ctx, conn, topology.Spec{Queue: d.name, Type: d.Type})
	})
	if err != nil {
		return err
	}
	d.say("%s, store %s; queue %s with %d orders, %d retries allowed", d.brokerTitle, d.storeTitle, d.name, len(d.orders),
		retries)
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
		msgs[i] = publisher.Message{Key: d.name, Publishing: amqp.Publishing{MessageId: o.ID, ContentType: "application/json",
			Body: body}}
	}
	return errors.Join(p.PublishAll(ctx, msgs), p.Close())
}

// watch runs the consumers until they report every order as settled, and tells the story. The verdict does not rely on
// their reports.
func (d *demo) watch(ctx context.Context) error {
	spec, err := json.Marshal(workerSpec{AMQPURL: d.AMQPURL, RedisURL: d.RedisURL, Prefix: d.name, Queue: d.name})
	if err != nil {
		return err
	}
	running, stop := context.WithTimeout(ctx, ordersTimeout)
	defer stop()
	// in the environment: every user can read a command line
	f := &fleet{env: append(os.Environ(), workerEnv+"="+string(spec)), ledger: d.ledger, stderr: d.Err}
	f.start(running, consumers)
	settled, story := map[string]bool{}, narrator{map[string]int{}}
	d.killed = map[int]bool{}
	for e := range f.events {
		d.say("%s", story.line(e))
		if e.ended != "" {
			d.killed[e.pid] = true
		}
		if e.settles() {
			settled[e.report.ID] = true
		}
		if len(settled) == len(d.orders) {
			stop()
		}
	}
	return ctx.Err()
}
