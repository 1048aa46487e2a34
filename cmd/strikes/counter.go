package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/counter"
)

func (a *app) counterCommand() *cli.Command {
	return &cli.Command{
		Name:   "counter",
		Usage:  "show what is counted of a queue's messages, reset it, and grant more tries",
		Action: a.do(group),
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "list the messages that are failing, running or dead-lettered, the newest first",
				ArgsUsage: "QUEUE",
				Flags: storeFlags(
					&cli.IntFlag{Name: "limit", Usage: "list `N` at most; 0: all"},
					jsonFlag("print one JSON object a message"),
				),
				Action: a.do(a.listCounters),
			},
			{
				Name: "get", Usage: "show what is counted of one message, in each of its lives, the newest first",
				ArgsUsage: "QUEUE ID",
				Flags:     storeFlags(jsonFlag("print one JSON object a life")),
				Action:    a.do(a.getCounter),
			},
			a.resetCommand(), a.grantCommand(),
		},
	}
}

func storeFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		redisFlag(), prefixFlag(), amqpFlag(),
		&cli.StringFlag{Name: "vhost", Sources: env("vhost"), DefaultText: "that of the AMQP URL", Usage: "the queue's virtual `HOST`"},
	}, more...)
}

// counters opens what the three need: the store, and the virtual host, for which the broker is not asked.
func counters(ctx context.Context, c *cli.Command) (store *counter.Counter, vhost string, err error) {
	vhost = c.String("vhost")
	if vhost == "" {
		b, err := brokerOf(c)
		if err != nil {
			return nil, "", err
		}
		vhost = b.vhost
	}
	store, err = storeOf(ctx, c)
	return store, vhost, err
}

func (a *app) listCounters(ctx context.Context, c *cli.Command) error {
	args, err := positional(c, "QUEUE")
	if err != nil {
		return err
	}
	limit := c.Int("limit")
	if limit < 0 {
		return usagef("--limit is %d: it must not be negative", limit)
	}
	store, vhost, err := counters(ctx, c)
	if err != nil {
		return err
	}
	defer store.Close()
	set, err := a.limitOf(ctx, store, vhost, args[0])
	if err != nil {
		return err
	}
	out := a.recordPrinter(c.Bool("json"))
	out.set = set
	n := 0
	for r, err := range store.List(ctx, vhost, args[0]) {
		if err != nil {
			return errors.Join(out.flush(), err)
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
	if n == 0 {
		return coded{fmt.Errorf("nothing is counted of queue %q in virtual host %q", args[0], vhost), exitNothing}
	}
	return nil
}

func (a *app) getCounter(ctx context.Context, c *cli.Command) error {
	args, err := positional(c, "QUEUE", "ID")
	if err != nil {
		return err
	}
	store, vhost, err := counters(ctx, c)
	if err != nil {
		return err
	}
	defer store.Close()
	records, err := store.Get(ctx, vhost, args[0], args[1])
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return coded{fmt.Errorf("nothing is counted of message %q of queue %q in virtual host %q", args[1], args[0], vhost), exitNothing}
	}
	set, err := a.limitOf(ctx, store, vhost, args[0])
	if err != nil {
		return err
	}
	for i, r := range records {
		v := recordOf(r, time.Now())
		v.Limit = r.InForce(set)
		if c.Bool("json") {
			err = json.NewEncoder(a.stdout).Encode(v)
		} else {
			err = a.printRecord(v, i > 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// limitOf is the override of a queue that its consumers obey, nil if there is none.
func (a *app) limitOf(ctx context.Context, store *counter.Counter, vhost, queue string) (*counter.Override, error) {
	set, err := store.Limit(ctx, vhost, queue)
	if errors.Is(err, counter.ErrOverride) {
		fmt.Fprintf(a.stderr, "strikes: %s\n", printable(err.Error(), ""))
		return nil, nil //nolint:nilnil // none is no error, and no zero value of an override
	}
	return set, err
}
