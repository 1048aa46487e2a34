package render

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// otherReasons is the group of those beyond the bound of a tally.
const otherReasons = "(other reasons)"

// group is the dead letters with one kind and one normalised reason, and where they were counted, in JSON.
type group struct {
	ops.Group
	Source Source    `json:"source"`
	AsOf   time.Time `json:"as_of"`

	Recorded *int `json:"recorded,omitempty"` // dead letters with a record, whatever the filter; absent: not asked
	Ready    *int `json:"ready,omitempty"`    // messages in the dead-letter queue, by the broker; absent: not asked
}

// Source is where an answer about dead letters comes from.
type Source string

// The sources.
const (
	FromStore Source = "store" // the records that the store keeps
	FromQueue Source = "queue" // the messages themselves
)

// GroupList counts dead letters by kind and reason. It is a List.
type GroupList struct {
	ops.Tally

	Source          *Source // FromStore once the store's records answer after all
	Recorded, Ready *int    // as in the JSON
	Cut             bool    // some groups are not printed

	out  List[group]
	most int // to print, those with the most dead letters; 0: all
	asOf time.Time
}

// Groups returns a list that counts dead letters and prints the most groups at most, the largest first; 0: all.
func Groups(w io.Writer, asJSON bool, most int, source *Source) *GroupList {
	out := newList(w, asJSON, func(one group) any { return one }, func(one group) []string {
		return []string{cmp.Or(one.Key, "-"), fmt.Sprint(one.Count), string(one.Kind), term.Ago(one.Oldest),
			term.Ago(one.Newest), printable.Why(one.Reason, longest)}
	}, term.Column{Title: "KEY"}, term.Column{Title: "COUNT"}, term.Column{Title: "KIND", Drop: 3},
		term.Column{Title: "OLDEST", Drop: 1}, term.Column{Title: "NEWEST", Drop: 2},
		term.Column{Title: "REASON", Min: 3 * leastReason})
	return &GroupList{most: most, Source: source, asOf: time.Now().UTC().Truncate(time.Second), out: out}
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
		row := group{*one, *g.Source, g.asOf, g.Recorded, g.Ready}
		if one.Kind == "" {
			row.Reason = otherReasons
		}
		if err := g.out.Row(row); err != nil {
			return err
		}
	}
	return g.out.Flush()
}
