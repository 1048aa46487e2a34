package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

func (a *app) grantCommand() *urfave.Command {
	return &urfave.Command{
		Name: "grant", Usage: "give one message N more tries than its limit",
		ArgsUsage: "QUEUE ID N",
		Description: "In force at the message's next step, on every consumer. Grants add up to 1000 at most. A message gets 1001 attempts\n" +
			"at most, so that its record stays under 24 KiB. Put an ID that begins with - after --.\n" +
			"What was dead-lettered already is replayed instead.",
		Flags: storeFlags(noteFlags(roomFlags(
			&urfave.BoolFlag{Name: "dry-run", Usage: "only say what would be granted"},
			jsonFlag("print one JSON object"),
		)...)...),
		Action: a.do(a.grantTries),
	}
}

// grantedTo is what grant prints.
type grantedTo struct {
	VHost   string `json:"vhost"`
	Queue   string `json:"queue"`
	ID      string `json:"id"`
	Life    string `json:"life,omitempty"`
	Tries   int    `json:"tries"` // given now
	Charges int    `json:"charges"`
	Limit   int    `json:"limit,omitempty"` // in force with them, if the consumers' own is known
	note
	Done bool `json:"done"` // false: --dry-run
}

func (a *app) grantTries(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE", "ID", "N")
	if err != nil {
		return err
	}
	tries, err := strconv.Atoi(args[2])
	if err != nil || tries < 1 || tries > counter.MaxGrant {
		return cli.Misusef("%s: N is %q: it is a number of tries, 1 to %d", c.FullName(), args[2], counter.MaxGrant)
	}
	why, err := noteOf(c)
	if err != nil {
		return err
	}
	d, err := a.deskFor(ctx, c, args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	r, err := d.living(ctx, args[1])
	if err != nil {
		return err
	}
	set, err := d.override(ctx)
	if err != nil {
		return err
	}
	out := grantedTo{VHost: d.vhost, Queue: d.queue, ID: r.ID, Life: r.Generation, Tries: tries, Charges: r.Counted(), note: noteJSON(why), Done: !c.Bool("dry-run")}
	r.Granted.Attempts = min(r.Granted.Attempts+tries, counter.MaxGrant)
	out.Limit = r.InForce(set)
	if err := a.checkRoom(ctx, c, args[0], min(max(out.Limit, r.Counted()+tries)-1, counter.MaxOverride)); err != nil {
		return err
	}
	if out.Done {
		if err := d.Admin().Grant(ctx, r.Message, counter.Grant{Attempts: tries, Note: why}); err != nil {
			return ungranted(err)
		}
	}
	return a.printGranted(out, c.Bool("json"))
}

// living returns the record of the life that is not over yet.
func (d *desk) living(ctx context.Context, id string) (counter.Record, error) {
	records, err := d.records(ctx, id)
	if err != nil {
		return counter.Record{}, err
	}
	if len(records) == 0 {
		return counter.Record{}, fmt.Errorf("%w: it has not failed yet", d.nothing("nothing is counted of message %q", id))
	}
	i := slices.IndexFunc(records, func(r counter.Record) bool { return r.State == counter.StateLive })
	if i < 0 {
		return counter.Record{}, ungranted(fmt.Errorf("message %q of queue %q: %w", id, d.queue, counter.ErrOver))
	}
	return records[i], nil
}

func ungranted(err error) error {
	if errors.Is(err, counter.ErrOver) {
		return cli.Misusef("%w: nothing is granted; what is in the dead-letter queue is replayed instead", err)
	}
	return err
}

func (a *app) printGranted(g grantedTo, asJSON bool) error {
	if asJSON {
		return jsonl.NewEncoder(a.Out).Encode(g)
	}
	verb := "would be granted"
	if g.Done {
		verb = "granted"
	}
	now := fmt.Sprintf("charges %d", g.Charges)
	if g.Limit > 0 {
		now += fmt.Sprintf(", limit %d", g.Limit)
	}
	_, err := fmt.Fprintf(a.Out, "%s: %s %s (%s)\n", term.Shown(g.ID), verb, term.Plural(g.Tries, "more try"), now)
	return err
}
