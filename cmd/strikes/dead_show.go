package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/ops"
)

// deadShow is one run of dead show.
type deadShow struct {
	deadWhere
	deadFilter

	search     int
	body, json bool
}

func (a *app) deadShowCommand() *cobra.Command {
	c := deadShow{deadWhere: deadWhere{Streams: a.Streams}}
	cmd := &cobra.Command{
		Use: "show QUEUE [ID]", Short: "show everything about one dead letter", Args: cobra.RangeArgs(1, 2),
		Example: `  strikes dead show orders order-17
  strikes dead show orders --group 34fqn6qw
  strikes dead show orders order-17 --body > order-17.json`,
		Long: `Give an ID, or a --group, whose newest dead letter is shown.

The store's record says when and why a message died. Headers and body are read
from the dead-letter queue, from its head, if it holds 500 messages at most. A
longer queue is read only for a message without a record, for --body and --json,
all up to that message, and with --search, which sets how many are read. stderr
says what was not read. If the queue does not hold the message, the record is
printed without headers and body, stderr says what became of it, and the exit
code is 3. strikes help dead-letters explains IDs and KIND.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], args[1:]) },
	}
	c.deadWhere.addTo(cmd)
	c.deadFilter.addTo(cmd)
	f := cmd.Flags()
	f.IntVar(&c.search, "search", 0, "read the first `N` dead letters of the queue at most; 0: all")
	cli.DefaultText(f, "search", "none of a long queue if the store has a record")
	f.BoolVar(&c.body, "body", false, "print only the body, byte by byte; not to a terminal")
	cli.JSON(f, &c.json, "print it as one JSON object, as publish --ndjson takes it, with \"dead\" added")
	return cmd
}

// run prints dead letters whole.
func (c *deadShow) run(ctx context.Context, queue string, ids []string) error {
	f, err := c.filter(&c.deadWhere, ids)
	switch {
	case err != nil:
		return err
	case len(ids) == 0 && c.group == "":
		return cli.Misusef("name the ID of a dead letter, or a group with --group KEY")
	case c.body && term.IsTerminal(c.Out):
		return cli.Misusef("--body writes raw bytes, which may upset a terminal; redirect it to a file or a pipe")
	}
	q, err := c.open(ctx, queue)
	if err != nil {
		return err
	}
	defer q.close()
	if len(ids) == 0 {
		example, err := q.newest(ctx, f)
		if err != nil {
			return err
		}
		f.IDs = []string{example}
	}
	q.dead.Preview = 1 << 30
	p := term.NewProgress(c.Err)
	q.dead.Progress = showing(p)
	defer p.Finish() // progress may follow the last dead letter
	find, err := c.find(ctx, q, f)
	if err != nil {
		return err
	}
	unread, err := find.each(ctx, func(l *deadletter.Message) error {
		p.Finish()
		return c.print(l, find.found > 0)
	})
	p.Finish()
	if unread != "" {
		fmt.Fprintln(c.Err, term.Printable(unread, ""))
	}
	return err
}

// newest returns the name of the newest dead letter that the filter picks, by the store's records. If they have none,
// it is the first one in the queue.
func (q *dlq) newest(ctx context.Context, f deadletter.Filter) (string, error) {
	if q.store != nil && f.Lane == "" {
		page, err := q.records().Dead(ctx, ops.DeadQuery{Filter: f, Limit: 1})
		if err != nil {
			return "", err
		}
		if len(page.Dead) > 0 {
			return page.Dead[0].Name(), nil
		}
	}
	if !q.dead.Handling.Hold {
		return "", q.nothing(seek(f))
	}
	for l, err := range q.dead.BrowsePart(ctx, f, deadletter.Bounds{Picked: 1}) {
		if err != nil {
			return "", q.fail(err)
		}
		return l.Name(), nil
	}
	return "", q.nothing(seek(f))
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
