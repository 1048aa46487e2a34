package main

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/runner"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/management"
	"github.com/strikesmq/strikes/topology"
)

func (a *app) doctorCommand() *cobra.Command {
	var o doctorOptions
	cmd := cli.New("doctor [QUEUE…]", "find what would lose, reorder or block messages, and how to fix it", `
Examines each QUEUE, its dead-letter route, the broker and the store. It reports what is wrong, why it matters and how to fix it, and
changes nothing. Without a QUEUE it examines every queue of the virtual host, except exclusive queues, streams, and queues that only take
the dead letters of others.

It uses the management API for what AMQP cannot report: --management-url, else the broker's host at its usual port, with the user and
password of the AMQP URL. Without the API it says what it could not see.

With --probe it also proves, for each QUEUE, where a requeued message goes, on a scratch queue with the same arguments, and that a rejected
message arrives, if the dead-letter queue is empty and has no consumer.

It examines everything before it exits: 5 if anything is wrong; else 69 if the store is out of reach, 4 if permissions are missing, 2 if a
QUEUE or the store's database does not exist, 0 if there are only warnings. A broker that cannot be asked ends it immediately, with 69 or 4.`[1:],
		func(ctx context.Context, args []string) error { return a.doctor(ctx, o, args) })
	f := cmd.Flags()
	o.AddBroker(cmd)
	o.AddStore(cmd)
	o.AddManagement(cmd, "to check what AMQP cannot report")
	f.IntVar(&o.maxRetries, "max-retries", consumer.DefaultMaxRetries, "how often consumers retry: the delivery limit must leave room for `N`")
	f.StringVar(&o.backoff, "backoff", runner.DefaultBackoff, "how long consumers wait before a retry: the consumer timeout must leave room for `WAIT`, as consume takes it")
	f.BoolVar(&o.ordered, "ordered", false, "messages must be handled in order")
	f.BoolVar(&o.allowDrop, "allow-drop", false, "accept that dead letters are lost")
	f.BoolVar(&o.probe, "probe", false, "prove it, with scratch messages")
	cli.FromEnv(f, "max-retries", "backoff", "ordered", "allow-drop")
	cli.JSON(f, &o.json, "print one JSON object a finding")
	return cmd
}

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	connect.Flags

	maxRetries                      int
	backoff                         string
	ordered, allowDrop, probe, json bool
}

// rounds is one run of the doctor.
type rounds struct {
	app    *app
	conn   *amqp.Connection
	counts *counter.Counter
	need   inspect.Need // without a Queue
	probe  bool
	listed bool            // the queues were not named, but found
	all    *doctor.Listing // nil: not listed yet
	report report
}

func (a *app) doctor(ctx context.Context, o doctorOptions, queues []string) error {
	need, err := o.need()
	if err != nil {
		return err
	}
	if o.probe && len(queues) == 0 {
		return cli.Misusef("--probe makes scratch queues and messages; name the QUEUE that it is for")
	}
	b, err := o.Broker()
	if err != nil {
		return err
	}
	store, err := connect.DialStore(o.RedisURL, o.Prefix)
	if err != nil {
		return err
	}
	defer store.Close()
	r := &rounds{app: a, need: need, counts: store, probe: o.probe, report: report{out: a.Out, json: o.json, vhost: b.VHost}}
	err = b.With(ctx, func(conn *amqp.Connection) error {
		r.conn = conn
		return r.broker(ctx, b, queues)
	})
	if err != nil {
		return err
	}
	if err := r.store(ctx, store, o.RedisURL); err != nil {
		return err
	}
	return r.report.verdict()
}

func (o *doctorOptions) need() (inspect.Need, error) {
	api, err := o.Management()
	if err != nil {
		return inspect.Need{}, err
	}
	wait, err := runner.ParseBackoff(o.backoff)
	if err != nil {
		return inspect.Need{}, cli.Misusef("--backoff: %w", err)
	}
	need := inspect.Need{
		MaxRetries: o.maxRetries, MaxBackoff: max(wait.Last, 1), // zero would be the default
		Ordered: o.ordered, AllowDrop: o.allowDrop, Management: api,
	}
	if need.MaxRetries < 0 || need.MaxRetries > runner.MostRetries {
		return need, cli.Refused("max-retries", need.MaxRetries, fmt.Sprintf("0 to %d", runner.MostRetries))
	}
	return need, nil
}

// broker examines the queues, and the broker itself.
func (r *rounds) broker(ctx context.Context, b *connect.Broker, queues []string) error {
	r.guess(ctx, b)
	if len(queues) == 0 {
		var err error
		r.listed = true
		if queues, err = r.list(ctx); err != nil {
			return err
		}
	}
	for _, queue := range queues {
		if err := r.queue(ctx, queue); err != nil {
			return err
		}
	}
	release, _ := r.conn.Properties["version"].(string)
	return r.report.add(subject{kind: "broker", name: "RabbitMQ " + release}, topologyFindings(doctor.Broker(r.conn)))
}

func (r *rounds) queue(ctx context.Context, name string) error {
	need := r.need
	need.Queue = name
	at := subject{kind: "queue", name: name}
	findings, err := doctor.Examine(ctx, r.conn, need)
	if errors.Is(err, topology.ErrQueueNotFound) && r.listed {
		return nil // deleted since
	}
	if errors.Is(err, topology.ErrQueueNotFound) {
		return r.report.add(at, []finding{{
			Code: codeNotFound, Severity: inspect.Error.String(),
			Seen:   fmt.Sprintf("there is no such queue in virtual host %q", r.report.vhost),
			Impact: "nothing can be consumed from it",
			Fix:    "declare it (strikes declare), or correct the name or the virtual host",
		}})
	}
	if err != nil {
		return err
	}
	known := append(r.undecodable(ctx, name), r.limits(ctx, name)...)
	if !r.probe {
		found, err := r.owned(ctx, name, topologyFindings(findings))
		if err != nil {
			return err
		}
		return r.report.add(at, append(found, known...))
	}
	proof, err := doctor.Probe(ctx, r.conn, need)
	if err != nil {
		return err
	}
	at.proven = proof.Proven
	return r.report.add(at, append(topologyFindings(append(findings, proof.Findings...)), known...))
}

// list names every queue to examine.
func (r *rounds) list(ctx context.Context) ([]string, error) {
	if r.need.Management == "" {
		return nil, cli.Misusef("without the management API queues cannot be listed: name a QUEUE, or give --management-url")
	}
	found, err := doctor.List(ctx, r.conn, r.need)
	switch {
	case errors.Is(err, management.ErrDenied):
		return nil, cli.WithCode(err, cli.ExitDenied)
	case err != nil && ctx.Err() == nil:
		return nil, cli.WithCode(err, cli.ExitUnreachable)
	case err != nil:
		return nil, err
	case len(found.Queues) == 0:
		return nil, cli.WithCode(fmt.Errorf("no queue in virtual host %q", r.report.vhost), cli.ExitNothing)
	case len(found.PassedOver) > 0:
		fmt.Fprintf(r.app.Err, "strikes: passed over %s: exclusive, a stream, or the dead-letter queue of another\n", term.Plural(len(found.PassedOver), "queue"))
	}
	return found.Queues, nil
}

// guess tries the usual address of the management API, unless one was given.
func (r *rounds) guess(ctx context.Context, b *connect.Broker) {
	if r.need.Management != "" {
		return
	}
	var err error
	if r.need, err = b.Management(ctx, r.conn, r.need); err != nil {
		fmt.Fprintf(r.app.Err, "strikes: continuing without the management API (none was given, and its usual address was tried): %s\n",
			term.Printable(err.Error(), ""))
	}
}
