package dead

import (
	"context"
	"fmt"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
)

func (c *Command) Show(ctx context.Context, queue string, ids []string) error {
	f, err := c.filter(ids)
	switch {
	case err != nil:
		return err
	case c.Body && term.IsTerminal(c.Out):
		return cli.Misusef("--body writes raw bytes, which may upset a terminal; redirect it to a file or a pipe")
	}
	q, err := c.open(ctx, queue)
	if err != nil {
		return err
	}
	defer q.close()
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
