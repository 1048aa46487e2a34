package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

func (a *app) counterCommand() *urfave.Command {
	return &urfave.Command{
		Name:   "counter",
		Usage:  "show what is counted of a queue's messages, reset it, and grant more tries",
		Action: a.do(group),
		Commands: []*urfave.Command{
			{
				Name: "list", Usage: "list the messages that are failing, running or dead-lettered, the newest first",
				ArgsUsage: "QUEUE", Description: stateMeanings,
				Flags: storeFlags(
					&urfave.IntFlag{Name: "limit", Usage: "list `N` at most; 0: all"},
					jsonFlag("print one JSON object a message"),
				),
				Action: a.do(a.listCounters),
			},
			{
				Name: "get", Usage: "show what is counted of one message, in each of its lives, the newest first",
				ArgsUsage: "QUEUE ID", Description: "An ID that begins with - stands behind --.\n" + stateMeanings,
				Flags:  storeFlags(jsonFlag("print one JSON object a life")),
				Action: a.do(a.getCounter),
			},
			a.resetCommand(), a.grantCommand(),
		},
	}
}

func storeFlags(more ...urfave.Flag) []urfave.Flag {
	return append([]urfave.Flag{
		redisFlag(), prefixFlag(), amqpFlag(),
		&urfave.StringFlag{Name: "vhost", Sources: env("vhost"), DefaultText: "that of the AMQP URL", Usage: "the queue's virtual `HOST`"},
	}, more...)
}

// desk is where operators work on what is counted of a queue.
type desk struct {
	*counter.Counter
	app          *app
	vhost, queue string
	url          string // of the store, password and all
}

// deskFor opens the store. For the virtual host the broker is not asked. The caller closes it.
func (a *app) deskFor(ctx context.Context, c *urfave.Command, queue string) (*desk, error) {
	d := &desk{app: a, vhost: c.String("vhost"), queue: queue, url: c.String("redis-url")}
	if d.vhost == "" {
		b, err := brokerOf(c)
		if err != nil {
			return nil, err
		}
		d.vhost = b.VHost
	}
	var err error
	d.Counter, err = storeOf(ctx, c)
	return d, err
}

// records are those of all lives of a message. It is an error if one of them is none.
func (d *desk) records(ctx context.Context, id string) ([]counter.Record, error) {
	records, err := d.Admin().Get(ctx, d.vhost, d.queue, id)
	if err != nil {
		return nil, err
	}
	for i := range records {
		records[i].ID = id // a record keeps no more than the beginning of a long one
	}
	if err := d.foreign(foreignKeys(records)...); err != nil {
		return nil, fmt.Errorf("message %q: %w", id, err)
	}
	return records, nil
}

// override is the limit that the queue's consumers obey instead of their own, nil if there is none.
func (d *desk) override(ctx context.Context) (*counter.Override, error) {
	set, err := d.Admin().Limit(ctx, d.vhost, d.queue)
	if errors.Is(err, counter.ErrOverride) {
		fmt.Fprintf(d.app.Err, "strikes: %s\n", term.Printable(err.Error(), ""))
		return nil, nil //nolint:nilnil // none is no error, and no zero value of an override
	}
	return set, err
}

// nothing says what there is not, of the queue.
func (d *desk) nothing(format string, args ...any) error {
	return cli.WithCode(fmt.Errorf("%s of queue %q in virtual host %q", fmt.Sprintf(format, args...), d.queue, d.vhost), cli.ExitNothing)
}

func (a *app) listCounters(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE")
	if err != nil {
		return err
	}
	limit := c.Int("limit")
	if limit < 0 {
		return cli.Misusef("--limit is %d: it must not be negative", limit)
	}
	d, err := a.deskFor(ctx, c, args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	set, err := d.override(ctx)
	if err != nil {
		return err
	}
	out := a.recordPrinter(c.Bool("json"))
	out.set = set
	n := 0
	var foreign []string
	for r, err := range d.Admin().List(ctx, d.vhost, d.queue) {
		if err != nil {
			return errors.Join(out.flush(), err)
		}
		if r.State == counter.StateForeign {
			foreign = append(foreign, r.Key)
			continue
		}
		if err := out.row(r, time.Now()); err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	if err := out.flush(); err != nil {
		return err
	}
	if n == 0 && len(foreign) == 0 {
		return d.nothing("nothing is counted")
	}
	return d.foreign(foreign...)
}

func (a *app) getCounter(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE", "ID")
	if err != nil {
		return err
	}
	d, err := a.deskFor(ctx, c, args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	records, err := d.records(ctx, args[1])
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return d.nothing("nothing is counted of message %q", args[1])
	}
	set, err := d.override(ctx)
	if err != nil {
		return err
	}
	for i, r := range records {
		v := recordOf(r, time.Now())
		v.Limit = r.InForce(set)
		if c.Bool("json") {
			err = jsonl.NewEncoder(a.Out).Encode(v)
		} else {
			err = a.printRecord(v, i > 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
