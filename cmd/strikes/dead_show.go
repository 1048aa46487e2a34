package main

import (
	"context"
	"fmt"
	"io"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
)

func (a *app) showDead(ctx context.Context, o deadOptions, queue string, ids []string) error {
	f, err := deadFilter(o, ids)
	switch {
	case err != nil:
		return err
	case o.body && term.IsTerminal(a.Out):
		return cli.Misusef("--body prints what may upset a terminal: give it a file or a pipe")
	}
	g, err := a.graveyardOf(ctx, o, queue)
	if err != nil {
		return err
	}
	defer g.close()
	g.dead.Preview = 1 << 30
	p := term.NewProgress(a.Err)
	g.dead.Progress = showing(p)
	defer p.Finish() // progress may follow the last letter
	find, err := g.search(ctx, o, f)
	if err != nil {
		return err
	}
	unread, err := find.each(ctx, func(l *deadletter.Message) error {
		p.Finish()
		return a.printDeadLetter(l, o, find.found > 0)
	})
	p.Finish()
	if unread != "" {
		fmt.Fprintln(a.Err, term.Printable(unread, ""))
	}
	return err
}

func (a *app) printDeadLetter(l *deadletter.Message, o deadOptions, another bool) error {
	switch {
	case o.body:
		_, err := a.Out.Write(l.Publishing.Body)
		return err
	case o.json:
		return render.DeadLetterJSON(a.Out, l)
	}
	return separated(a.Out, another, func() error { return render.DeadLetter(a.Out, l) })
}

// separated prints an empty line before what is not the first.
func separated(w io.Writer, another bool, print func() error) error {
	if another {
		fmt.Fprintln(w)
	}
	return print()
}
