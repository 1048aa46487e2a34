package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
)

func (a *app) listDead(ctx context.Context, o deadOptions, queue string, ids []string) error {
	f, err := deadFilter(o, ids)
	switch {
	case err != nil:
		return err
	case o.limit < 0:
		return cli.Refused("limit", o.limit, "0 or more")
	case o.records && o.noStore:
		return cli.Misusef("--records are the store's, and --no-store forbids to ask it")
	}
	g, err := a.graveyardOf(ctx, o, queue)
	if err != nil {
		return err
	}
	defer g.close()
	out, limit := render.DeadLetters(a.Out, o.json), o.limit
	if o.groups {
		out, limit = render.Groups(a.Out, o.json, limit), 0
	}
	letters, err := a.deadLetters(ctx, g, f, limit, o.records)
	if err != nil {
		return err
	}
	want := seek(f.IDs)
	limited, err := printDead(letters, out, limit, g, want)
	if errors.Is(err, deadletter.ErrBusy) && g.store != nil {
		err = fmt.Errorf("%w; --records lists what the store knows of them", err)
	}
	if err == nil && !limited {
		err = want.missing(g.dead.Name)
	}
	return g.fail(err)
}

// printDead reports whether it stopped at the limit.
func printDead(letters iter.Seq2[*deadletter.Message, error], out render.List[*deadletter.Message], limit int, g *graveyard, want *sought) (limited bool, err error) {
	n := 0
	for l, err := range letters {
		if err != nil {
			return false, errors.Join(out.Flush(), err)
		}
		want.saw(l)
		if err := out.Row(l); err != nil {
			return false, err
		}
		if n++; n == limit {
			return true, out.Flush()
		}
	}
	if err := out.Flush(); err != nil {
		return false, err
	}
	if n == 0 {
		return false, g.none(want)
	}
	return false, nil
}

// deadLetters yields those in the queue where reading is harmless, else those of the store's records. It stops reading the queue
// once limit are picked; 0: never.
func (a *app) deadLetters(ctx context.Context, g *graveyard, f deadletter.Filter, limit int, records bool) (iter.Seq2[*deadletter.Message, error], error) {
	if !records && g.dead.Handling.Hold {
		p := term.NewProgress(a.Err)
		g.dead.Progress = showing(p)
		return func(yield func(*deadletter.Message, error) bool) {
			defer p.Finish() // progress may follow the last letter
			for l, err := range g.dead.BrowsePart(ctx, f, deadletter.Bounds{Picked: limit}) {
				p.Finish()
				if errors.Is(err, deadletter.ErrUnread) || !yield(l, err) {
					return
				}
			}
		}, nil
	}
	if f.Lane != "" {
		return nil, cli.Misusef("--lane takes a look at the queue %s (--force does it): %s", g.where(), why(g))
	}
	if g.store == nil {
		return nil, cli.Misusef("queue %s is not looked at (--force does it): %s", g.where(), why(g))
	}
	if !records {
		var err error
		has := "It is with another consumer, which holds some or all of it"
		switch g.unseen, err = g.dead.Depth(ctx); {
		case errors.Is(err, deadletter.ErrBusy):
			g.held = err
		case err != nil:
			return nil, g.fail(err)
		default:
			has = "It has " + term.Plural(g.unseen, "message")
		}
		fmt.Fprintf(a.Err, "queue %s is not looked at: %s.\n%s. What follows is from the records: it may have left the queue since.\n",
			g.where(), term.Printable(g.dead.Handling.Why, ""), has)
	}
	return recorded(ctx, g, f), nil
}

func why(g *graveyard) string {
	if g.dead.Handling.Why == "" {
		return "the records do not tell it"
	}
	return g.dead.Handling.Why
}

// recorded are the dead letters of which the store tells, the newest first.
func recorded(ctx context.Context, g *graveyard, f deadletter.Filter) iter.Seq2[*deadletter.Message, error] {
	return func(yield func(*deadletter.Message, error) bool) {
		for r, err := range g.store.Admin().List(ctx, g.broker.VHost, g.queue) {
			if err != nil {
				yield(nil, err)
				return
			}
			if l := g.recorded(r, f); l != nil && !yield(l, nil) {
				return
			}
		}
	}
}

// showing shows progress.
func showing(p *term.Progress) func(deadletter.Progress) {
	return func(at deadletter.Progress) { p.Show(at.Doing, at.Done, at.Of) }
}
