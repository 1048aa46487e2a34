package main

import (
	"slices"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/deadletter"
)

// deadFilter reads which dead letters are meant.
func deadFilter(o deadOptions, ids []string) (deadletter.Filter, error) {
	f := deadletter.Filter{
		IDs: ids, Queue: o.origin, Kind: deadletter.Kind(o.kind), Reason: o.reason,
		Older: o.older, Newer: o.newer,
	}
	if lane := o.lane; lane != "" {
		var ok bool
		if f.Lane, f.LaneValue, ok = strings.Cut(lane, "="); !ok || f.Lane == "" {
			return f, cli.Refused("lane", lane, "a header and its value, NAME=VALUE")
		}
	}
	switch {
	case f.Kind != "" && !slices.Contains(deadletter.Kinds(), f.Kind):
		return f, cli.Refused("kind", string(f.Kind), "one of "+kindNames())
	case f.Older < 0 || f.Newer < 0:
		return f, cli.Misusef("--older-than and --newer-than must not be negative")
	case f.Newer > 0 && f.Newer < f.Older:
		return f, cli.Misusef("--newer-than is %v and --older-than %v: nothing is both", f.Newer, f.Older)
	case o.noStore && f.NeedsRecords() && !ofTheBroker(f):
		return f, cli.Misusef("--no-store goes with no --reason and no --kind that only the store tells")
	}
	return f, nil
}

// ofTheBroker reports whether a dead letter itself tells what the filter asks for.
func ofTheBroker(f deadletter.Filter) bool {
	return f.Reason == "" && slices.Contains([]deadletter.Kind{deadletter.KindDeliveryLimit, deadletter.KindExpired, deadletter.KindOverflow}, f.Kind)
}

// chosen is deadFilter for what changes the queue: everything is meant only if that is said.
func chosen(o deadOptions, ids []string) (deadletter.Filter, error) {
	f, err := deadFilter(o, ids)
	switch {
	case err != nil:
		return f, err
	case o.max < 0:
		return f, cli.Refused("max", o.max, "0 or more")
	case f.Everything() && !o.all:
		return f, cli.Misusef("say which dead letters: an ID, a filter, or --all")
	case !f.Everything() && o.all:
		return f, cli.Misusef("--all goes with no ID and no filter")
	}
	return f, nil
}
