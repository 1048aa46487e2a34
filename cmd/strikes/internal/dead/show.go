package dead

import (
	"context"
	"fmt"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/records"
)

// Show prints dead letters whole.
func (c *Command) Show(ctx context.Context, queue string, ids []string) error {
	f, err := c.filter(ids)
	switch {
	case err != nil:
		return err
	case len(ids) == 0 && c.Group == "":
		return cli.Misusef("name the ID of a dead letter, or a group with --group KEY")
	case c.Body && term.IsTerminal(c.Out):
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
	find, err := c.search(ctx, q, f)
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
		page, err := q.records().Dead(ctx, records.DeadQuery{Filter: f, Limit: 1})
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

func (c *Command) print(l *deadletter.Message, another bool) error {
	switch {
	case c.Body:
		_, err := c.Out.Write(l.Publishing.Body)
		return err
	case c.JSON:
		return render.DeadLetterJSON(c.Out, l)
	}
	if another {
		fmt.Fprintln(c.Out)
	}
	return render.DeadLetter(c.Out, l)
}
