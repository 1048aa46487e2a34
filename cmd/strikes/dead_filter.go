package main

import (
	"slices"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/reason"
)

// filter reads which dead letters are meant. Without the store it refuses
// what only the store knows.
func (c *deadFilter) filter(w *deadWhere, ids []string) (deadletter.Filter, error) {
	f := deadletter.Filter{
		IDs: ids, Queue: c.origin, Kind: deadletter.Kind(c.kind), Reason: c.lastError, Group: c.group,
		Older: c.older, Newer: c.newer, Lane: c.laneHeader, LaneValue: c.lane,
	}
	switch {
	case w.Changed("lane") != (c.laneHeader != ""):
		return f, cli.Misusef("--lane VALUE and --lane-header NAME go together: the lane is the value of that header")
	case f.Kind != "" && !slices.Contains(deadletter.Kinds(), f.Kind):
		return f, cli.Refused("kind", string(f.Kind), "one of "+strings.Join(deadKinds(), ", "))
	case f.Group != "" && !reason.IsKey(f.Group):
		return f, cli.Refused("group", f.Group, "one of the keys that dead list --groups shows")
	case f.Older < 0 || f.Newer < 0:
		return f, cli.Misusef("--older-than and --newer-than must not be negative")
	case f.Newer > 0 && f.Newer < f.Older:
		return f, cli.Misusef("--newer-than must not be less than --older-than, got %v and %v", f.Newer, f.Older)
	case w.noStore && f.NeedsRecords() && !ofTheBroker(f):
		return f, cli.Misusef("--no-store cannot be used with --error or --group, or with a --kind that only the store knows")
	}
	return f, nil
}

// ofTheBroker reports whether the dead letter itself shows what the filter asks for.
func ofTheBroker(f deadletter.Filter) bool {
	return f.Reason == "" && f.Group == "" && slices.Contains([]deadletter.Kind{deadletter.KindDeliveryLimit,
		deadletter.KindExpired, deadletter.KindOverflow}, f.Kind)
}
