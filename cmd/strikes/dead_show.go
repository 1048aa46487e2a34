package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

	body, json bool
}

func (a *app) deadShowCommand() *cobra.Command {
	c := deadShow{deadWhere: deadWhere{Streams: a.Streams}}
	cmd := &cobra.Command{
		Use: "show QUEUE ID", Short: "show everything about one dead letter",
		Example: `  strikes dead show orders order-17
  strikes dead show orders order-17 --body > order-17.json`,
		Long: `The store's record says when and why a message died. Headers and body are read
from the dead-letter queue, from its head, if it holds 500 messages at most. A
longer queue is read only for a message without a record, and for --body and
--json: all up to that message. stderr says how many were read. If the queue
does not hold the message, the record is printed without headers and body,
stderr says why, and the exit code is 3. strikes help dead-letters explains IDs
and KIND.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], args[1]) },
	}
	c.deadWhere.addTo(cmd)
	f := cmd.Flags()
	f.BoolVar(&c.body, "body", false, "print only the body, byte by byte; not to a terminal")
	cli.JSON(f, &c.json, "print it as one JSON object, as publish --ndjson takes it, with \"dead\" added")
	return cmd
}

// run prints dead letters whole.
func (c *deadShow) run(ctx context.Context, queue, id string) error {
	if c.body && term.IsTerminal(c.Out) {
		return cli.Misusef("--body writes raw bytes, which may upset a terminal; redirect it to a file or a pipe")
	}
	q, err := c.open(ctx, queue)
	if err != nil {
		return err
	}
	defer q.close()
	f := deadletter.Filter{IDs: []string{id}, Source: queue}
	kept, err := q.keptOf(ctx, f)
	if err != nil {
		return err
	}
	q.dead.Preview = 1 << 30
	found, whole := 0, c.body || c.json
	reads := whole || kept.dead == nil && (kept.removed == nil || q.ready <= searched)
	q.sayReading(reads)
	show := func(l *deadletter.Message) error {
		found++
		return c.print(l, found > 1)
	}
	// asStored shows the store's record, and says why the queue was not read.
	asStored := func(why string) error {
		if kept.dead == nil {
			return cli.WithCode(fmt.Errorf("%s was replayed or dropped at %s, by the store; %s", printable.Name(id),
				kept.removed.Record.Removed.UTC().Format(time.RFC3339), why), cli.ExitNothing)
		}
		err := show(kept.dead)
		fmt.Fprintf(c.Err, "headers and body were not read: %s. This is the store's record as of %s; the message may have "+
			"left the queue since.\n", printable.Text(why, ""), time.Now().UTC().Format(time.RFC3339))
		return err
	}
	var bounds deadletter.Bounds
	switch {
	case q.ready <= searched: // others may have the ID
	case reads:
		bounds.Picked = 1
	default: // the store alone answers
		return asStored(fmt.Sprintf("queue %s holds %d messages; --json reads all up to this one", q.where(), q.ready))
	}
	for l, err := range q.dead.BrowsePart(ctx, f, bounds) {
		var left *deadletter.UnreadError
		refused := errors.Is(err, deadletter.ErrUnsafe) || errors.Is(err, deadletter.ErrBusy) ||
			errors.Is(err, deadletter.ErrUndecodable)
		switch {
		case errors.As(err, &left) && found > 0:
			fmt.Fprintf(c.Err, "only the first %d of %d dead letters were read; others of this ID may follow\n", left.Read,
				left.Of)
			return nil
		case refused && found == 0 && !whole && kept.dead != nil: // the store's record is enough
			return asStored(cli.Plain(q.wayOut(err)))
		case err != nil:
			return q.fail(err)
		}
		if err := show(l); err != nil {
			return err
		}
	}
	if found > 0 {
		return nil
	}
	// The queue, which was read to its end, does not hold the message.
	absent := q.nothing(seek(f))
	if last := cmp.Or(kept.dead, kept.removed); last != nil && !whole {
		if err := show(last); err != nil {
			return err
		}
	}
	var where string
	switch {
	case kept.alive != "":
		where = fmt.Sprintf("by its record it is %s, not dead-lettered; run: strikes counter get %s", kept.alive,
			shell.Operands(queue, id))
	case kept.dead != nil:
		where = fmt.Sprintf("by its record it died at %s: it is on its way, expired, was consumed elsewhere or was lost; "+
			"run: strikes doctor %s", kept.dead.Record.LastTime.UTC().Format(time.RFC3339), shell.Operands(queue))
	case kept.removed != nil:
		where = fmt.Sprintf("by its record it was replayed or dropped at %s; run: strikes audit %s",
			kept.removed.Record.Removed.UTC().Format(time.RFC3339), shell.Operands(queue))
	default:
		return absent
	}
	return cli.WithCode(fmt.Errorf("%w; %s", absent, where), cli.ExitNothing)
}

func (c *deadShow) print(l *deadletter.Message, another bool) error {
	switch {
	case c.body:
		_, err := c.Out.Write(l.Publishing.Body)
		return err
	case c.json:
		return render.DeadLetterJSON(c.Out, l)
	}
	if another {
		fmt.Fprintln(c.Out)
	}
	return render.DeadLetter(c.Out, l)
}

// searched is how many dead letters are read without being asked for: a longer queue takes long, and a quorum queue
// counts it.
const searched = 500

// kept has the store's records of the dead letters of one id.
type kept struct {
	dead    *deadletter.Message // the newest that was neither replayed nor dropped; nil: none
	removed *deadletter.Message // the newest that was; nil: none
	alive   ops.State           // of the newest generation, if that is not dead-lettered
}

// keptOf asks the store for the dead letters that a filter with one id picks.
func (q *dlq) keptOf(ctx context.Context, f deadletter.Filter) (k kept, err error) {
	if q.store == nil {
		return k, nil
	}
	all, err := q.store.Admin().Get(ctx, q.broker.VHost, q.queue, f.IDs[0])
	if err != nil {
		return k, err
	}
	for i := range all { // the newest first
		r := &all[i]
		m := deadletter.OfRecord(r)
		switch {
		case r.State != counter.StateDeadLetter:
			if i == 0 {
				k.alive = ops.StateOf(*r)
			}
		case !f.Match(m, time.Now()):
		case r.Removed.IsZero():
			k.dead = m
			return k, nil
		case k.removed == nil:
			k.removed = m
		}
	}
	return k, nil
}
