package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/ops"
)

// deadShow is one run of dead show.
type deadShow struct {
	deadWhere

	read, body, json bool
}

func (a *app) deadShowCommand() *cobra.Command {
	c := deadShow{deadWhere: deadWhere{Streams: a.Streams}}
	cmd := &cobra.Command{
		Use: "show QUEUE ID", Short: "show everything about one dead letter",
		Example: `  strikes dead show orders order-17
  strikes dead show orders order-17 --read
  strikes dead show orders order-17 --body > order-17.json`,
		Long: `Prints the store's record, which says when and why the message died. --read,
--body and --json read the message itself, with headers and body: they read the
dead-letter queue from its head up to the message, or a queue of up to 500
messages to its end. strikes help dead-letters says what that costs, and
explains IDs and KIND.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], args[1]) },
	}
	c.deadWhere.addTo(cmd)
	f := cmd.Flags()
	f.BoolVar(&c.read, "read", false, "read the message from the dead-letter queue, as --no-store does")
	f.BoolVar(&c.body, "body", false, "print only the body, byte by byte; not to a terminal")
	cli.JSON(f, &c.json, "print it as one JSON object, as publish --ndjson takes it, with \"dead\" added")
	return cmd
}

// run prints the record of a dead letter, or the dead letters of an id.
func (c *deadShow) run(ctx context.Context, queue, id string) error {
	if c.body && term.IsTerminal(c.Out) {
		return cli.Misusef("--body writes raw bytes, which may upset a terminal; redirect it to a file or a pipe")
	}
	q, err := c.openStore(ctx, queue)
	if err != nil {
		return err
	}
	defer q.close()
	f := deadletter.Filter{IDs: []string{id}, Source: queue}
	if c.read || c.noStore || c.body || c.json {
		return c.fromQueue(ctx, q, f)
	}
	return c.fromStore(ctx, q, f)
}

// searched is how many messages a queue has at most that is read to its end, although the message was found.
const searched = 500

// fromQueue prints the dead letters of an id.
func (c *deadShow) fromQueue(ctx context.Context, q *dlq, f deadletter.Filter) (err error) {
	if err := q.judge(ctx, c.force); err != nil {
		return err
	}
	to, end := unheld(c.Out)
	defer func() { err = cmp.Or(err, end()) }()
	q.dead.Preview = 1 << 30
	q.sayReading(true)
	found := 0
	for l, err := range q.dead.Browse(ctx, f) {
		if err != nil {
			return q.fail(err)
		}
		found++
		if err := c.print(to, l, found > 1); err != nil {
			return err
		}
		if q.ready > searched { // else others of this ID are found too
			fmt.Fprintf(c.Err, "queue %s was read up to this message; others of this ID may follow\n", q.where())
			return nil
		}
	}
	if found > 0 {
		return nil
	}
	return q.nothing(seek(f))
}

// fromStore prints the record of the newest dead letter with this id that was neither replayed nor dropped, or else of
// the newest.
func (c *deadShow) fromStore(ctx context.Context, q *dlq, f deadletter.Filter) error {
	id := f.IDs[0]
	all, err := q.store.Admin().Get(ctx, q.broker.VHost, q.queue, id)
	if err != nil {
		return err
	}
	dead := slices.DeleteFunc(slices.Clone(all), func(r counter.Record) bool { return r.State != counter.StateDeadLetter })
	if len(dead) > 0 { // the newest first
		r := &dead[max(0, slices.IndexFunc(dead, func(r counter.Record) bool { return r.Removed.IsZero() }))]
		switch err := c.print(c.Out, deadletter.OfRecord(r), false); {
		case err != nil:
			return err
		case !r.Removed.IsZero():
			return cli.WithCode(fmt.Errorf("%s was replayed or dropped at %s; run: strikes audit %s", printable.Name(id),
				r.Removed.UTC().Format(time.RFC3339), shell.Operands(q.queue)), cli.ExitNothing)
		}
		fmt.Fprintln(c.Err, "this is the store's record; --read reads headers and body from the dead-letter queue")
		return nil
	}
	if len(all) > 0 {
		return cli.WithCode(fmt.Errorf("%s is %s, not dead-lettered; run: strikes counter get %s", printable.Name(id),
			ops.StateOf(all[0]), shell.Operands(q.queue, id)), cli.ExitNothing)
	}
	if missing := c.RefuseMissing(ctx, q.queue); missing != nil {
		return missing
	}
	return cli.WithCode(fmt.Errorf("the store has no record of %s in queue %s; --read looks in the dead-letter queue",
		printable.Name(id), printable.Name(q.queue)), cli.ExitNothing)
}

func (c *deadShow) print(to io.Writer, l *deadletter.Message, another bool) error {
	switch {
	case c.body:
		_, err := to.Write(l.Publishing.Body)
		return err
	case c.json:
		return render.DeadLetterJSON(to, l)
	}
	if another {
		fmt.Fprintln(to)
	}
	return render.DeadLetter(to, l)
}
