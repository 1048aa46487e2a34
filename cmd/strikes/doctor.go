package main

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/management"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/topology"
)

func (a *app) doctorCommand() *urfave.Command {
	return &urfave.Command{
		Name:      "doctor",
		Usage:     "find out what would lose, reorder or block messages, and how to mend it",
		ArgsUsage: "[QUEUE…]",
		Description: "Looks at each QUEUE, its dead-letter way, the broker and the store, and says what is wrong with them, what comes\n" +
			"of it, and what mends it. It changes nothing. Without a QUEUE it looks at every queue of the virtual host, except\n" +
			"exclusive ones, streams, and queues that only take the dead letters of others.\n\n" +
			"What AMQP does not tell it asks the management API: --management-url, else the broker's host at its usual port, with\n" +
			"the user and password of the AMQP URL. Without one it says what it could not see.\n\n" +
			"With --probe it also proves, for each QUEUE, where a requeued message goes, on a scratch queue with the same\n" +
			"arguments, and that a rejected message lands, if the dead-letter queue is empty and nobody consumes from it.\n\n" +
			"It looks at all there is before it exits: 5 if anything is wrong, whatever else; 69 if the store is out of reach, 4 if\n" +
			"it may not look, 2 if a QUEUE or the store's database does not exist; 0 if there are only warnings. A broker that\n" +
			"cannot be asked ends it at once, with 69 or 4.",
		Flags: []urfave.Flag{
			amqpFlag(), redisFlag(), prefixFlag(), managementFlag("to check what AMQP does not tell"),
			&urfave.IntFlag{Name: "max-retries", Sources: env("max-retries"), Value: consumer.DefaultMaxRetries, Usage: "how often consumers retry: the delivery limit must leave room for `N`"},
			&urfave.StringFlag{Name: "backoff", Sources: env("backoff"), Value: defaultBackoff, Usage: "how long consumers wait before a retry: the consumer timeout must leave room for `WAIT`, as consume takes it"},
			&urfave.BoolFlag{Name: "ordered", Sources: env("ordered"), Usage: "messages must be handled in order"},
			&urfave.BoolFlag{Name: "allow-drop", Sources: env("allow-drop"), Usage: "accept that dead letters are lost"},
			&urfave.BoolFlag{Name: "probe", Usage: "prove it, with scratch messages"},
			jsonFlag("print one JSON object a finding"),
		},
		Action: a.do(a.doctor),
	}
}

// managementFlag is that of a verb that tries the API's usual place if it is given none.
func managementFlag(purpose string) *urfave.StringFlag {
	return &urfave.StringFlag{
		Name: "management-url", Sources: env("management-url"),
		DefaultText: "at the broker's host, its AMQP port + 10000, if it answers",
		Usage:       "the broker's management API, as `URL` http://user:password@host:15672, " + purpose,
	}
}

// managementOf returns the API's URL; empty if none was given.
func managementOf(c *urfave.Command) (string, error) {
	api := c.String("management-url")
	if api == "" {
		return "", nil
	}
	if u, parameters, err := setting.ParseURL(api); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(parameters) > 0 {
		return "", cli.Misuse(&setting.FieldError{Field: "--management-url", Value: "one that cannot be read", Want: "http[s]://user:password@host:15672"})
	}
	return api, nil
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

func (a *app) doctor(ctx context.Context, c *urfave.Command) error {
	queues, err := positional(c, "[QUEUE…]")
	if err != nil {
		return err
	}
	need, err := doctorNeed(c)
	if err != nil {
		return err
	}
	if c.Bool("probe") && len(queues) == 0 {
		return cli.Misusef("doctor: --probe makes scratch queues and messages: name the QUEUE that it is for")
	}
	b, err := brokerOf(c)
	if err != nil {
		return err
	}
	store, err := unchecked(c)
	if err != nil {
		return err
	}
	defer store.Close()
	r := &rounds{app: a, need: need, counts: store, probe: c.Bool("probe"), report: report{out: a.Out, json: c.Bool("json"), vhost: b.VHost}}
	err = b.With(ctx, func(conn *amqp.Connection) error {
		r.conn = conn
		return r.broker(ctx, b, queues)
	})
	if err != nil {
		return err
	}
	if err := r.store(ctx, store, c.String("redis-url")); err != nil {
		return err
	}
	return r.report.verdict()
}

func doctorNeed(c *urfave.Command) (inspect.Need, error) {
	api, err := managementOf(c)
	if err != nil {
		return inspect.Need{}, err
	}
	wait, err := parseBackoff(c.String("backoff"))
	if err != nil {
		return inspect.Need{}, cli.Misusef("--backoff: %w", err)
	}
	need := inspect.Need{
		MaxRetries: c.Int("max-retries"), MaxBackoff: max(wait.last, 1), // zero would be the default
		Ordered: c.Bool("ordered"), AllowDrop: c.Bool("allow-drop"), Management: api,
	}
	if need.MaxRetries < 0 || need.MaxRetries > mostRetries {
		return need, refusedFlag("max-retries", need.MaxRetries, fmt.Sprintf("0 to %d", mostRetries))
	}
	return need, nil
}

// broker looks at the queues, and at the broker itself.
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
			Fix:    "declare it (strikes declare), or mind the name and the virtual host",
		}})
	}
	if err != nil {
		return err
	}
	known := append(r.undecodable(ctx, name), r.limits(ctx, name)...)
	if !r.probe {
		told, err := r.owned(ctx, name, topologyFindings(findings))
		if err != nil {
			return err
		}
		return r.report.add(at, append(told, known...))
	}
	proof, err := doctor.Probe(ctx, r.conn, need)
	if err != nil {
		return err
	}
	at.proven = proof.Proven
	return r.report.add(at, append(topologyFindings(append(findings, proof.Findings...)), known...))
}

// list names every queue worth a look.
func (r *rounds) list(ctx context.Context) ([]string, error) {
	if r.need.Management == "" {
		return nil, cli.Misusef("doctor: without the management API queues cannot be listed: name a QUEUE, or give --management-url")
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

// guess tries the usual place of the management API, unless one was given.
func (r *rounds) guess(ctx context.Context, b *connect.Broker) {
	if r.need.Management != "" {
		return
	}
	var err error
	if r.need, err = b.Management(ctx, r.conn, r.need); err != nil {
		fmt.Fprintf(r.app.Err, "strikes: going without the management API (none was given, and its usual place was tried): %s\n",
			term.Printable(err.Error(), ""))
	}
}
