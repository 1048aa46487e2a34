package console

import (
	"context"
	"errors"
	"iter"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/ops"
)

// rabbit answers the questions of the pages about the broker. dialled is the one outside tests.
type rabbit interface {
	All(context.Context) (ops.Overview, error)
	Collector() collector // of one queue
	// Examine examines a queue, or every queue if queue is empty, and the broker at the same time. It shows the report
	// about the broker last, and always. A report may have findings beside its Err.
	Examine(ctx context.Context, queue string, show func(doctor.Report)) error
	DeliveryLimit(context.Context, inspect.Need) ([]inspect.Finding, error)
	// Unconsumed returns the result of ops.Unconsumed.
	Unconsumed(ctx context.Context, queue string) (how string, err error)
	// Alone reports whether a queue is known to share its dead-letter queue with no other.
	Alone(ctx context.Context, queue string) bool
	// DeadLetters returns the dead-letter queue of a queue, and its name. with says how to read it.
	DeadLetters(ctx context.Context, queue string, with deadletter.Queue) (deadLetters, string, error)
	Close()
}

// collector collects the status of one queue, with a connection of its own. Outside tests it is an *ops.Collector.
type collector interface {
	Collect(context.Context, ops.Question) (ops.Status, error)
	Close()
}

// deadLetters is a *deadletter.Queue, outside tests.
type deadLetters interface {
	Allows(deadletter.Filter) error
	Browse(context.Context, deadletter.Filter) iter.Seq2[*deadletter.Message, error]
	Replay(context.Context, deadletter.Replay) (deadletter.Result, error)
	Drop(ctx context.Context, f deadletter.Filter, most int, keep func([]*deadletter.Message) error) (
		deadletter.Result, error)
}

// dialled is a broker behind Options.Dial.
type dialled struct {
	opts Options
	all  *ops.Collector
}

func newBroker(o Options) *dialled {
	d := &dialled{opts: o}
	d.all = d.collector()
	return d
}

func (d *dialled) collector() *ops.Collector {
	dial := func(ctx context.Context) (*amqp.Connection, error) { return broker.Connect(ctx, d.opts.Dial) }
	return &ops.Collector{VHost: d.opts.VHost, Store: d.opts.Store.Admin(), Dial: dial, API: d.need(""),
		Names: d.opts.Queues}
}

func (d *dialled) Collector() collector { return d.collector() }

func (d *dialled) need(queue string) inspect.Need {
	return inspect.Need{Queue: queue, Management: d.opts.Management, HTTPClient: d.opts.HTTPClient}
}

// with calls f with a connection of its own. Each question of f ends a second after ctx at the latest.
func (d *dialled) with(ctx context.Context, f func(*amqp.Connection) error) error {
	conn, err := broker.Connect(ctx, d.opts.Dial)
	if err != nil {
		return err
	}
	defer broker.HangUp(conn)
	return f(conn)
}

// All is asked by one goroutine at a time.
func (d *dialled) All(ctx context.Context) (ops.Overview, error) { return d.all.All(ctx) }

func (d *dialled) Close() { d.all.Close() }

// Examine opens one connection for the queues and one for the broker, because either may take all the time or end its
// connection.
func (d *dialled) Examine(ctx context.Context, queue string, show func(doctor.Report)) (err error) {
	names, about := d.opts.Queues, doctor.Report{Subject: "broker"}
	if queue != "" {
		names = []string{queue}
	}
	var beside panics.Group
	beside.Go(func() error {
		return d.with(ctx, func(conn *amqp.Connection) error {
			about = (&doctor.Checkup{Conn: conn, Need: d.need("")}).Broker(ctx)
			return about.Err
		})
	})
	err = d.with(ctx, func(conn *amqp.Connection) error {
		need := d.need("")
		need.MaxRetries = inspect.UsualRetries
		up := doctor.Checkup{Conn: conn, Need: need, Store: d.opts.Store.Admin(), Named: len(names) > 0}
		if !up.Named {
			listed, err := doctor.List(ctx, conn, need)
			if names = listed.Queues; err != nil {
				return err
			}
		}
		return up.Queues(ctx, names, func(r doctor.Report) error {
			show(r)
			return nil
		})
	})
	about.Err = beside.Wait()
	show(about)
	return err
}

func (d *dialled) DeliveryLimit(ctx context.Context, need inspect.Need) (found []inspect.Finding, err error) {
	need.Management, need.HTTPClient = d.opts.Management, d.opts.HTTPClient
	err = d.with(ctx, func(conn *amqp.Connection) (err error) {
		found, err = doctor.DeliveryLimit(ctx, conn, need)
		return err
	})
	return found, err
}

func (d *dialled) Unconsumed(ctx context.Context, queue string) (how string, err error) {
	err = d.with(ctx, func(conn *amqp.Connection) (err error) {
		how, err = ops.Unconsumed(ctx, conn, d.need(queue))
		return err
	})
	return how, err
}

func (d *dialled) Alone(ctx context.Context, queue string) (alone bool) {
	_ = d.with(ctx, func(conn *amqp.Connection) error {
		at, err := ops.FindDeadLetterQueue(ctx, conn, d.need(queue))
		if err != nil {
			return err
		}
		others, err := ops.Sharing(ctx, conn, d.need(queue), at.Name)
		alone = err == nil && len(others) == 0
		return err
	})
	return alone
}

func (d *dialled) DeadLetters(ctx context.Context, queue string, q deadletter.Queue) (deadLetters, string, error) {
	q.Dial, q.Records = d.opts.Dial, d.opts.Store.Admin()
	var at ops.DeadLetterQueue
	err := d.with(ctx, func(conn *amqp.Connection) (err error) {
		if q.Partitioned, q.Partitions, err = broker.FindPartitions(ctx, conn, queue); err == nil {
			at, err = ops.FindDeadLetterQueue(ctx, conn, d.need(queue))
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	q.Name = at.Name
	opened, err := deadletter.Open(ctx, q, deadletter.Management{URL: d.opts.Management, Client: d.opts.HTTPClient})
	if errors.Is(err, deadletter.ErrQueueNotFound) {
		err = errors.Join(err, at.Assumed)
	}
	return opened, at.Name, err
}
