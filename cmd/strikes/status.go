package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/queueinfo"
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
	l, err := newLooker(c, args[0])
	if err != nil {
		return err
	}
	if l.store, err = storeOf(ctx, c); err != nil {
		return err
	}
	defer l.store.Close()
	defer l.close()
	first, err := l.look(ctx)
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

func newLooker(c *urfave.Command, queue string) (*looker, error) {
	b, err := brokerOf(c)
	if err != nil {
		return nil, err
	}
	api, err := managementOf(c)
	if err != nil {
		return nil, err
	}
	l := &looker{broker: b, vhost: b.VHost, queue: queue, dead: c.String("dead-letter-queue"), most: c.Int("limit"),
		api: inspect.Need{Management: api}}
	switch err := queueinfo.CheckName(l.dead); {
	case err != nil && l.dead != "":
		return nil, cli.Misusef("--dead-letter-queue: %w", err)
	case l.most < 0:
		return nil, cli.Misusef("--limit is %d: it must not be negative", l.most)
	case c.Duration("interval") < 100*time.Millisecond:
		return nil, cli.Misusef("--interval is %v: it must be 100ms at least", c.Duration("interval"))
	case c.String("vhost") != "" && c.String("vhost") != b.VHost:
		return nil, cli.Misusef("--vhost is %q, but the broker's URL leads to virtual host %q", c.String("vhost"), b.VHost)
	}
	return l, nil
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

func (p *statusPrinter) print(s standing) error {
	if p.json != nil {
		return p.json.Encode(s)
	}
	if p.begun {
		fmt.Fprintln(p.app.Out)
	}
	p.begun = true
	for _, text := range term.Fitted(s.text(), 0, 0, p.color) {
		if _, err := fmt.Fprintln(p.app.Out, text); err != nil {
			return err
		}
	}
	return nil
}
