package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/queueinfo"
	"github.com/strikesmq/strikes/internal/status"
	"github.com/strikesmq/strikes/topology"
)

func (a *app) statusCommand() *urfave.Command {
	return &urfave.Command{
		Name:      "status",
		Usage:     "show what blocks a queue now, and why",
		ArgsUsage: "QUEUE",
		Description: "Blocking are the messages that failed and are not dead-lettered, and those that run again; the one that does so for\n" +
			"longest comes first: in an ordered queue, that is its head. With lanes each has one, and the store does not tell\n" +
			"which lane is whose. A message that a handler has for the first time is not in the store, and only counts as\n" +
			"unacked.\n" + blockMeanings + "\n\n" +
			routeMeaning + "\n" +
			"The store counts the messages that consumers dead-lettered. status compares the count with what the dead-letter queue\n" +
			"has, and with what strikes dead replay and dead drop took out of it. While that queue has a consumer, nothing is called\n" +
			"missing. Messages without an id, and those that the broker dead-letters by itself, are not counted. If messages are\n" +
			"missing, or wait in a quorum queue for their dead-letter route, status says what is wrong with the route.\n\n" +
			"Only the management API reports rates, unacked and waiting messages, and what others took out of the dead-letter queue.\n" +
			"Its figures are up to 10 s old.",
		Flags: storeFlags(
			managementFlag("for what AMQP cannot report"),
			&urfave.StringFlag{Name: "dead-letter-queue", Aliases: []string{"dlq"}, Sources: env("dead-letter-queue"), DefaultText: "found", Usage: "where dead letters go: `NAME`"},
			&urfave.IntFlag{Name: "limit", Value: 20, Usage: "tell of `N` messages at most; 0: all"},
			&urfave.BoolFlag{Name: "watch", Usage: "look again and again; on a terminal, q ends it"},
			&urfave.DurationFlag{Name: "interval", Value: 2 * time.Second, Usage: "between two looks: `TIME`"},
			jsonFlag("print one JSON object a look"),
		),
		Action: a.do(a.status),
	}
}

func (a *app) status(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE")
	if err != nil {
		return err
	}
	l, err := newCollector(c, args[0])
	if err != nil {
		return err
	}
	store, err := storeOf(ctx, c)
	if err != nil {
		return err
	}
	defer store.Close()
	l.Store = store.Admin()
	defer l.Close()
	first, err := l.Collect(ctx)
	if err != nil {
		return err
	}
	switch out := newStatusPrinter(a, c.Bool("json")); {
	case !c.Bool("watch"):
		return out.print(first)
	case out.json == nil && term.IsTerminal(a.Out) && os.Getenv("TERM") != "dumb":
		return a.watchScreen(ctx, l, first, c.Duration("interval"))
	default:
		return a.watchLines(ctx, l, out, first, c.Duration("interval"))
	}
}

func newCollector(c *urfave.Command, queue string) (*collector, error) {
	b, err := brokerOf(c)
	if err != nil {
		return nil, err
	}
	api, err := managementOf(c)
	if err != nil {
		return nil, err
	}
	l := &collector{broker: b, Collector: status.Collector{
		Queue: queue, VHost: b.VHost, DeadLetterQueue: c.String("dead-letter-queue"), Most: c.Int("limit"),
		Dial: b.Dial, API: topology.Need{Management: api}, FindAPI: b.Management,
	}}
	switch err := queueinfo.CheckName(l.DeadLetterQueue); {
	case err != nil && l.DeadLetterQueue != "":
		return nil, cli.Misusef("--dead-letter-queue: %w", err)
	case l.Most < 0:
		return nil, cli.Misusef("--limit is %d: it must not be negative", l.Most)
	case c.Duration("interval") < 100*time.Millisecond:
		return nil, cli.Misusef("--interval is %v: it must be 100ms at least", c.Duration("interval"))
	case c.String("vhost") != "" && c.String("vhost") != b.VHost:
		return nil, cli.Misusef("--vhost is %q, but the broker's URL leads to virtual host %q", c.String("vhost"), b.VHost)
	}
	return l, nil
}

// collector collects a status, and says which broker is out of reach.
type collector struct {
	status.Collector
	broker *connect.Broker
}

// Collect gives a lost connection its exit code.
func (l *collector) Collect(ctx context.Context) (status.Status, error) {
	s, err := l.Collector.Collect(ctx)
	if lost := (*status.LostError)(nil); errors.As(err, &lost) {
		err = l.broker.Explain(err)
	}
	return s, ambiguous(err)
}

// ambiguous says what to do if dead letters land in several queues.
func ambiguous(err error) error {
	if errors.As(err, new(*status.AmbiguousError)) {
		return cli.Misusef("%w; choose one with --dead-letter-queue", err)
	}
	return err
}

// statusPrinter prints looks as text or as NDJSON.
type statusPrinter struct {
	app   *app
	json  *json.Encoder
	color bool
	begun bool
}

func newStatusPrinter(a *app, asJSON bool) *statusPrinter {
	p := &statusPrinter{app: a, color: term.Colored(a.Out)}
	if asJSON {
		p.json = jsonl.NewEncoder(a.Out)
	}
	return p
}

func (p *statusPrinter) print(s status.Status) error {
	if p.json != nil {
		return p.json.Encode(render.StatusJSON(s))
	}
	if p.begun {
		fmt.Fprintln(p.app.Out)
	}
	p.begun = true
	for _, text := range term.Fitted(render.Status(s), 0, 0, p.color) {
		if _, err := fmt.Fprintln(p.app.Out, text); err != nil {
			return err
		}
	}
	return nil
}
