package dead

import (
	"slices"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/reason"
)

// filter reads which dead letters are meant.
func (c *Command) filter(ids []string) (deadletter.Filter, error) {
	f := deadletter.Filter{
		IDs: ids, Queue: c.Origin, Kind: deadletter.Kind(c.Kind), Reason: c.Error, Group: c.Group,
		Older: c.Older, Newer: c.Newer, Lane: c.LaneHeader, LaneValue: c.Lane,
	}
	switch {
	case c.Changed("lane") != (c.LaneHeader != ""):
		return f, cli.Misusef("--lane VALUE and --lane-header NAME go together: the lane is the value of that header")
	case f.Kind != "" && !slices.Contains(deadletter.Kinds(), f.Kind):
		return f, cli.Refused("kind", string(f.Kind), "one of "+strings.Join(kinds(), ", "))
	case f.Group != "" && !reason.IsKey(f.Group):
		return f, cli.Refused("group", f.Group, "one of the keys that dead list --groups shows")
	case f.Older < 0 || f.Newer < 0:
		return f, cli.Misusef("--older-than and --newer-than must not be negative")
	case f.Newer > 0 && f.Newer < f.Older:
		return f, cli.Misusef("--newer-than must not be less than --older-than, got %v and %v", f.Newer, f.Older)
	case c.NoStore && f.NeedsRecords() && !ofTheBroker(f):
		return f, cli.Misusef("--no-store cannot be used with --error or --group, or with a --kind that only the store knows")
	}
	return f, nil
}

// ofTheBroker reports whether the dead letter itself shows what the filter asks for.
func ofTheBroker(f deadletter.Filter) bool {
	return f.Reason == "" && f.Group == "" && slices.Contains([]deadletter.Kind{deadletter.KindDeliveryLimit,
		deadletter.KindExpired, deadletter.KindOverflow}, f.Kind)
}

// chosen is filter for what changes the queue: everything is meant only if that is said.
func (c *Command) chosen(ids []string) (deadletter.Filter, error) {
	f, err := c.filter(ids)
	switch {
	case err != nil:
		return f, err
	case c.Max < 0:
		return f, cli.Refused("max", c.Max, "0 or more")
	case f.Everything() && !c.All:
		return f, cli.Misusef("say which dead letters: an ID, a filter, or --all")
	case !f.Everything() && c.All:
		return f, cli.Misusef("--all cannot be used with an ID or a filter")
	}
	return f, nil
}
