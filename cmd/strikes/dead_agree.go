package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
)

// verb is what is about to be done, for the question.
type verb struct {
	verb, done, where string
	filter            deadletter.Filter
	max               int

	instead, does string // the verb of lane that keeps the order of blocked lanes, and its effect on a lane
}

// agreed asks, or only says what would be done: then it is false. It refuses blocked lanes, also those that are blocked
// since it asked.
func (c *deadChange) agreed(ctx context.Context, q *dlq, v verb) (bool, error) {
	if err := c.refuseBlocked(ctx, q, v.instead, v.does); err != nil {
		return false, err
	}
	dry, yes := c.dryRun, c.yes
	if yes && !dry {
		return true, nil
	}
	if !dry && (!term.IsTerminal(c.In) || !term.IsTerminal(c.Err)) {
		return false, c.Confirm(ctx, false, true, "") // which refuses
	}
	want := seek(v.filter)
	n, err := c.count(ctx, q, v, want)
	if err != nil {
		return false, q.fail(err)
	}
	if n == 0 {
		return false, q.nothing(want)
	}
	if dry {
		fmt.Fprintf(c.Err, "%d would be %s%s\n", n, v.done, v.where)
		if reached(v.max, n) {
			return false, nil
		}
		return false, want.missing(q.dead.Name)
	}
	question := fmt.Sprintf("%s %d dead letters of queue %s%s?", strings.ToUpper(v.verb[:1])+v.verb[1:], n, q.where(),
		v.where)
	if err := c.Confirm(ctx, false, true, question); err != nil {
		return false, err
	}
	return true, c.refuseBlocked(ctx, q, v.instead, v.does)
}

// count counts, and with --dry-run lists, what is meant.
func (c *deadChange) count(ctx context.Context, q *dlq, v verb, want *wanted) (n int, err error) {
	list := c.dryRun && q.dead.Handling.Hold
	if v.filter.Everything() && !list {
		n, err = q.dead.Depth(ctx)
		if v.max > 0 {
			n = min(n, v.max)
		}
		return n, err
	}
	out := render.DeadLetters(c.Out, c.json)
	for l, err := range q.dead.Browse(ctx, v.filter) {
		if err != nil {
			return n, err
		}
		want.saw(l)
		if list {
			err = out.Row(l)
		}
		if n++; err != nil || n == v.max {
			return n, errors.Join(err, out.Flush())
		}
	}
	return n, out.Flush()
}

// chosen is filter for what changes the queue: everything is meant only if that is said.
func (c *deadChange) chosen(ids []string) (deadletter.Filter, error) {
	f, err := c.filter(&c.deadWhere, ids)
	switch {
	case err != nil:
		return f, err
	case c.most < 0:
		return f, cli.Refused("max", c.most, "0 or more")
	case f.Everything() && !c.all:
		return f, cli.Misusef("say which dead letters: an ID, a filter, or --all")
	case !f.Everything() && c.all:
		return f, cli.Misusef("--all cannot be used with an ID or a filter")
	}
	return f, nil
}
