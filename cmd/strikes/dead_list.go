package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// deadList is one run of dead list.
type deadList struct {
	deadWhere
	deadFilter

	limit              int
	groups, read, json bool
}

func (a *app) deadListCommand() *cobra.Command {
	c := deadList{deadWhere: deadWhere{Streams: a.Streams}}
	cmd := &cobra.Command{
		Use: "list QUEUE [ID…]", Short: "list dead letters and why they died",
		Example: `  strikes dead list orders
  strikes dead list orders --groups
  strikes dead list orders --kind timed-out --newer-than 12h
  strikes dead list orders --read --kind expired`,
		Long: `Lists the store's records of dead letters, the newest first. Messages without an
id have no record, nor have those that the broker or another program
dead-lettered. If the dead-letter queue holds more or fewer messages than there
are records, stderr gives both numbers.

--read lists the messages of the dead-letter queue instead, in the order in
which replay takes them. strikes help dead-letters says what that costs, and
explains KIND.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], args[1:]) },
	}
	c.deadWhere.addTo(cmd)
	c.deadFilter.addTo(cmd)
	f := cmd.Flags()
	f.IntVar(&c.limit, "limit", 0, "list `N` at most, or of --groups the largest N; 0: all")
	f.BoolVar(&c.groups, "groups", false, "count them by kind and reason; each group has a key, which --group takes")
	f.BoolVar(&c.read, "read", false, "read the dead-letter queue, as --no-store does")
	cli.JSON(f, &c.json, "print one JSON object a dead letter, or a group")
	return cmd
}

// run prints the dead letters, or their groups.
func (c *deadList) run(ctx context.Context, queue string, ids []string) error {
	f, err := c.filter(&c.deadWhere, queue, ids)
	switch {
	case err != nil:
		return err
	case c.limit < 0:
		return cli.Refused("limit", c.limit, "0 or more")
	}
	q, err := c.openStore(ctx, queue)
	if err != nil {
		return err
	}
	defer q.close()
	if c.read || c.noStore {
		return c.fromQueue(ctx, q, f)
	}
	return c.fromStore(ctx, q, f)
}

// fromQueue prints the messages of the dead-letter queue that the filter picks.
func (c *deadList) fromQueue(ctx context.Context, q *dlq, f deadletter.Filter) error {
	if err := q.judge(ctx, c.force); err != nil {
		return err
	}
	groups, picked, want := render.Groups(c.Out, c.json, c.limit), 0, seek(f)
	var out render.List[*deadletter.Message] = groups
	to, end := unheld(c.Out)
	if !c.groups {
		out, picked = render.DeadLetters(to, c.json), c.limit
	}
	q.sayReading(picked == 0 || !f.Everything()) // the next match may be far away
	n, err := printed(q.dead.Browse(ctx, f), picked, want, out)
	switch err = errors.Join(err, end()); {
	case err != nil:
		return q.fail(err)
	case n == 0:
		return q.nothing(want)
	}
	return cmp.Or(c.cut(n, groups), want.missing("queue "+q.where()))
}

// fromStore prints the store's records that the filter picks. It compares their number with that of the messages in
// the dead-letter queue. If the broker does not say, its error ends the command after the list.
func (c *deadList) fromStore(ctx context.Context, q *dlq, f deadletter.Filter) error {
	debug.SetGCPercent(400) // the process ends with its list, and collecting garbage less often makes that faster
	judged := make(chan error, 1)
	go func() { judged <- q.judge(ctx, c.force) }() // which takes about as long as the list
	groups, want := render.Groups(c.Out, c.json, c.limit), seek(f)
	n, err := c.records(ctx, q, want, groups)
	recorded, uncounted := n, error(nil)
	if !f.Everything() || c.limit > 0 && !c.groups { // else it counted them all
		recorded, uncounted = q.store.Admin().CountDead(ctx, q.broker.VHost, q.queue)
	}
	away := <-judged
	if err = cmp.Or(err, uncounted, ctx.Err()); err != nil {
		return err
	}
	if err := c.cut(n, groups); err != nil || away != nil {
		return cmp.Or(away, err)
	}
	if q.ready >= 0 && q.ready != recorded {
		fmt.Fprintf(c.Err, "queue %s holds %s, and the store has records of %s of queue %s; --read lists the messages\n",
			q.where(), printable.Plural(q.ready, "message"), printable.Plural(recorded, "dead letter"),
			printable.Name(q.queue))
	}
	switch {
	case n > 0:
		return want.missing("the store's records of queue " + printable.Name(q.queue))
	case q.ready == 0:
		return q.nothing(want)
	}
	matches := ""
	if !f.Everything() {
		matches = " that matches" + want.names()
	}
	return cli.WithCode(fmt.Errorf("the store has no record of a dead letter of queue %s%s; --read looks in the queue",
		printable.Name(q.queue), matches), cli.ExitNothing)
}

// records prints the records, or counts their groups, and returns their number.
func (c *deadList) records(ctx context.Context, q *dlq, want *wanted, groups *render.GroupList) (int, error) {
	if !c.groups {
		return printed(q.records().EachDead(ctx, want.Filter), c.limit, want, render.DeadLetters(c.Out, c.json))
	}
	counted, err := q.records().Groups(ctx, ops.DeadQuery{Filter: want.Filter})
	if err != nil {
		return 0, err
	}
	return counted.Count, groups.Print(counted.Groups)
}

// printed prints so many dead letters at most (0: all), and returns how many it printed.
func printed(messages iter.Seq2[*deadletter.Message, error], most int, want *wanted,
	out render.List[*deadletter.Message]) (n int, err error) {
	for m, failed := range messages {
		if err = failed; err != nil {
			break
		}
		want.saw(m)
		if err = out.Row(m); err != nil {
			return n, err
		}
		if n++; n == most {
			return n, out.Flush() // before the queue gets its messages back
		}
	}
	return n, errors.Join(out.Flush(), err)
}

// cut says that --limit may have ended the list.
func (c *deadList) cut(n int, groups *render.GroupList) error {
	switch {
	case groups.Cut:
		return c.Cut(c.limit, "group", "there are more")
	case !c.groups && c.limit > 0 && n == c.limit:
		return c.Cut(c.limit, "dead letter", "there may be more")
	}
	return nil
}

// sayReading says that a command reads messages and leaves them in the queue. It does so only if the command may read
// all, and that takes long.
func (q *dlq) sayReading(all bool) {
	if q.ready > tedious && all && q.dead.Handling.Hold {
		fmt.Fprintf(q.stderr, "reading the %d messages of queue %s, which stay there if you interrupt this\n", q.ready,
			q.where())
	}
}

// tedious is how many dead letters take more than half a second to read.
const tedious = 5000
