package render

import (
	"fmt"
	"io"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/records"
)

// otherReasons is the group of those beyond the bound of a tally.
const otherReasons = "(other reasons)"

// group is the dead letters with one kind and one normalised reason, in JSON.
type group struct {
	Kind    string    `json:"kind"`
	Reason  string    `json:"reason"` // normalised
	Count   int       `json:"count"`
	Oldest  time.Time `json:"oldest,omitzero"`
	Newest  time.Time `json:"newest,omitzero"`
	Example string    `json:"example,omitempty"` // id of one of the newest
}

func groupOf(g *records.Group) group {
	out := group{Kind: string(g.Kind), Reason: g.Reason, Count: g.Count, Oldest: g.Oldest, Newest: g.Newest, Example: g.Example.Name()}
	if g.Kind == "" {
		out.Reason = otherReasons
	}
	return out
}

// groups counts dead letters by kind and reason.
type groups struct {
	records.Tally

	out  List[group]
	most int // to print, those with the most dead letters; 0: all
}

// Groups returns a list that counts dead letters and prints the most groups
// at most, the largest first; 0: all.
func Groups(w io.Writer, asJSON bool, most int) List[*deadletter.Message] {
	g := &groups{most: most}
	if asJSON {
		g.out = newLines(w, func(one group) any { return one })
		return g
	}
	g.out = table[group]{term.NewTable(w,
		term.Column{Title: "COUNT"}, term.Column{Title: "KIND", Drop: 3}, term.Column{Title: "OLDEST", Drop: 1}, term.Column{Title: "NEWEST", Drop: 2},
		term.Column{Title: "REASON", Min: 3 * leastReason},
	), func(one group) []string {
		return []string{fmt.Sprint(one.Count), one.Kind, term.Ago(one.Oldest), term.Ago(one.Newest), term.Brief(one.Reason, longest)}
	}}
	return g
}

func (g *groups) Row(m *deadletter.Message) error {
	g.Add(m)
	return nil
}

func (g *groups) Flush() error {
	sorted := g.Groups()
	if g.most > 0 {
		sorted = sorted[:min(g.most, len(sorted))]
	}
	for _, one := range sorted {
		if err := g.out.Row(groupOf(one)); err != nil {
			return err
		}
	}
	return g.out.Flush()
}
