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
		Usage:  "show and reset what is counted of a queue's messages",
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
			{
				Name: "reset", Usage: "forget what was counted of messages, so that their budget is full again",
				ArgsUsage:   "QUEUE ID…",
				Description: "An ID that begins with - stands behind --. A message that is in the dead-letter queue stays there.",
				Flags: storeFlags(
					&cli.BoolFlag{Name: "dry-run", Usage: "only say what would be forgotten"},
					&cli.BoolFlag{Name: "yes", Usage: "do not ask; needed where there is no terminal to ask at"},
					jsonFlag("print one JSON object an id"),
				),
				Action: a.do(a.resetCounters),
			},
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
	out := a.recordPrinter(c.Bool("json"))
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
	for i, r := range records {
		if c.Bool("json") {
			err = json.NewEncoder(a.stdout).Encode(recordOf(r, time.Now()))
		} else {
			err = a.printRecord(r, i > 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// counted is what reset knows of one id.
type counted struct {
	ID      string `json:"id"`
	Records int    `json:"records"`
	Charges int    `json:"charges"`
	Reset   bool   `json:"reset"` // done
}

func (a *app) resetCounters(ctx context.Context, c *cli.Command) error {
	args, err := positional(c, "QUEUE", "ID…")
	if err != nil {
		return err
	}
	store, vhost, err := counters(ctx, c)
	if err != nil {
		return err
	}
	defer store.Close()
	queue := args[0]
	found, records, err := lookUp(ctx, store, vhost, queue, args[1:])
	if err != nil {
		return err
	}
	if records == 0 {
		return coded{fmt.Errorf("nothing is counted of these messages of queue %q in virtual host %q", queue, vhost), exitNothing}
	}
	if !c.Bool("dry-run") {
		question := fmt.Sprintf("Forget what is counted of %d messages of queue %s?", len(found), shown(queue))
		if err := a.confirm(c.Bool("yes"), question); err != nil {
			return err
		}
		for i := range found {
			if found[i].Records, err = store.Reset(ctx, vhost, queue, found[i].ID); err != nil {
				return errors.Join(a.printCounted(found[:i], c.Bool("json")), err)
			}
			found[i].Reset = true
		}
	}
	return a.printCounted(found, c.Bool("json"))
}

// lookUp finds those of ids of which something is counted.
func lookUp(ctx context.Context, store *counter.Counter, vhost, queue string, ids []string) (found []counted, records int, err error) {
	for _, id := range ids {
		of, err := store.Get(ctx, vhost, queue, id)
		if err != nil {
			return nil, 0, err
		}
		n := counted{ID: id, Records: len(of)}
		for _, r := range of {
			n.Charges += r.Charges()
		}
		if records += n.Records; n.Records > 0 {
			found = append(found, n)
		}
	}
	return found, records, nil
}

func (a *app) printCounted(all []counted, asJSON bool) error {
	for _, n := range all {
		if asJSON {
			if err := json.NewEncoder(a.stdout).Encode(n); err != nil {
				return err
			}
			continue
		}
		what := "would be forgotten"
		if n.Reset {
			what = "forgotten"
		}
		fmt.Fprintf(a.stdout, "%s: %s (charges %d, lives %d)\n", shown(n.ID), what, n.Charges, n.Records)
	}
	return nil
}
