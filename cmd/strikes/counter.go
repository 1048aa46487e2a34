package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

func (a *app) counterCommand() *cobra.Command {
	return cli.Group("counter", "show what is counted of a queue's messages, reset it, and grant more attempts",
		a.counterListCommand(), a.counterGetCommand(), a.resetCommand(), a.grantCommand())
}

func (a *app) counterListCommand() *cobra.Command {
	var o counterOptions
	cmd := cli.New("list QUEUE", "list the messages that are failing, running or dead-lettered, the newest first", stateMeanings,
		func(ctx context.Context, args []string) error { return a.listCounters(ctx, o, args[0]) })
	o.addTo(cmd)
	cmd.Flags().IntVar(&o.limit, "limit", 0, "list `N` at most; 0: all")
	cli.JSON(cmd.Flags(), &o.json, "print one JSON object a message")
	return cmd
}

func (a *app) counterGetCommand() *cobra.Command {
	var o counterOptions
	cmd := cli.New("get QUEUE ID", "show what is counted of one message, in each of its generations, the newest first",
		"Put an ID that begins with - after --.\n"+stateMeanings,
		func(ctx context.Context, args []string) error { return a.getCounter(ctx, o, args[0], args[1]) })
	o.addTo(cmd)
	cli.JSON(cmd.Flags(), &o.json, "print one JSON object a generation")
	return cmd
}

// storeOptions are the flags of a verb that asks the store about a queue.
type storeOptions struct{ connect.Flags }

func (o *storeOptions) addTo(cmd *cobra.Command) {
	o.AddStore(cmd)
	o.AddBroker(cmd)
	o.AddVHost(cmd)
}

// counterOptions are the flags of the verbs that show counters.
type counterOptions struct {
	storeOptions

	limit int
	json  bool
}

// desk is where operators work on what is counted of a queue.
type desk struct {
	*counter.Counter
	app          *app
	vhost, queue string
	url          string // of the store, password and all
}

// deskFor opens the store. For the virtual host the broker is not asked. The caller closes it.
func (a *app) deskFor(ctx context.Context, o connect.Flags, queue string) (*desk, error) {
	d := &desk{app: a, vhost: o.VHost, queue: queue, url: o.RedisURL}
	if d.vhost == "" {
		b, err := o.Broker()
		if err != nil {
			return nil, err
		}
		d.vhost = b.VHost
	}
	var err error
	d.Counter, err = o.Store(ctx)
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

func (a *app) listCounters(ctx context.Context, o counterOptions, queue string) error {
	if o.limit < 0 {
		return cli.Refused("limit", o.limit, "0 or more")
	}
	d, err := a.deskFor(ctx, o.Flags, queue)
	if err != nil {
		return err
	}
	defer d.Close()
	set, err := d.override(ctx)
	if err != nil {
		return err
	}
	out := a.recordPrinter(o.json)
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
		if n++; n == o.limit {
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

func (a *app) getCounter(ctx context.Context, o counterOptions, queue, id string) error {
	d, err := a.deskFor(ctx, o.Flags, queue)
	if err != nil {
		return err
	}
	defer d.Close()
	records, err := d.records(ctx, id)
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return d.nothing("nothing is counted of message %q", id)
	}
	set, err := d.override(ctx)
	if err != nil {
		return err
	}
	for i, r := range records {
		v := recordOf(r, time.Now())
		v.Limit = r.InForce(set)
		if o.json {
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
