package main

import (
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/deadletter"
)

// deadFilter reads which dead letters are meant.
func deadFilter(c *urfave.Command, ids []string) (deadletter.Filter, error) {
	f := deadletter.Filter{
		IDs: ids, Queue: c.String("origin"), Kind: deadletter.Kind(c.String("kind")), Reason: c.String("reason"),
		Older: c.Duration("older-than"), Newer: c.Duration("newer-than"),
	}
	if lane := c.String("lane"); lane != "" {
		var ok bool
		if f.Lane, f.LaneValue, ok = strings.Cut(lane, "="); !ok || f.Lane == "" {
			return f, cli.Misusef("--lane is %q: it is a header and its value, NAME=VALUE", lane)
		}
	}
	switch {
	case f.Kind != "" && !slices.Contains(deadletter.Kinds(), f.Kind):
		return f, cli.Misusef("--kind is %q: it is one of %s", f.Kind, kindNames())
	case f.Older < 0 || f.Newer < 0:
		return f, cli.Misusef("--older-than and --newer-than must not be negative")
	case f.Newer > 0 && f.Newer < f.Older:
		return f, cli.Misusef("--newer-than is %v and --older-than %v: nothing is both", f.Newer, f.Older)
	case c.Bool("no-store") && f.NeedsRecords() && !ofTheBroker(f):
		return f, cli.Misusef("--no-store goes with no --reason and no --kind that only the store tells")
	}
	return f, nil
}

// ofTheBroker reports whether a dead letter itself tells what the filter asks for.
func ofTheBroker(f deadletter.Filter) bool {
	return f.Reason == "" && slices.Contains([]deadletter.Kind{deadletter.KindDeliveryLimit, deadletter.KindExpired, deadletter.KindOverflow}, f.Kind)
}

// chosen is deadFilter for what changes the queue: everything is meant only if that is said.
func chosen(c *urfave.Command, ids []string) (deadletter.Filter, error) {
	f, err := deadFilter(c, ids)
	switch {
	case err != nil:
		return f, err
	case c.Int("max") < 0:
		return f, cli.Misusef("--max is %d: it must not be negative", c.Int("max"))
	case f.Everything() && !c.Bool("all"):
		return f, cli.Misusef("%s: say which: an ID, a filter, or --all (see %s --help)", c.FullName(), c.FullName())
	case !f.Everything() && c.Bool("all"):
		return f, cli.Misusef("%s: --all goes with no ID and no filter", c.FullName())
	}
	return f, nil
}
