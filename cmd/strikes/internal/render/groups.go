package render

import (
	"cmp"
	"fmt"
	"io"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// otherReasons is the group of those beyond the bound of a tally.
const otherReasons = "(other reasons)"

// GroupList counts dead letters by kind and reason. It is a List.
type GroupList struct {
	ops.Tally

	Cut bool // some groups are not printed

	out  List[*ops.Group]
	most int // to print, those with the most dead letters; 0: all
}

// Groups returns a list that counts dead letters, and prints their groups, the largest first. It prints so many groups
// at most; 0: all.
func Groups(w io.Writer, asJSON bool, most int) *GroupList {
	out := newList(w, asJSON, func(g *ops.Group) any { return g }, func(one *ops.Group) []string {
		return []string{cmp.Or(one.Key, "-"), fmt.Sprint(one.Count), string(one.Kind), term.Ago(one.Oldest),
			term.Ago(one.Newest), printable.Why(one.Reason, longest)}
	}, "KEY", "COUNT", "KIND", "OLDEST", "NEWEST", "REASON")
	return &GroupList{most: most, out: out}
}

// Row counts a dead letter.
func (g *GroupList) Row(m *deadletter.Message) error {
	g.Add(m)
	return nil
}

// Flush prints the groups that were counted.
func (g *GroupList) Flush() error { return g.Print(g.Groups()) }

// Print prints groups that were counted elsewhere, the largest first.
func (g *GroupList) Print(sorted []*ops.Group) error {
	if g.Cut = g.most > 0 && len(sorted) > g.most; g.Cut {
		sorted = sorted[:g.most]
	}
	for _, one := range sorted {
		if one.Kind == "" {
			one.Reason = otherReasons
		}
		if err := g.out.Row(one); err != nil {
			return err
		}
	}
	return g.out.Flush()
}
