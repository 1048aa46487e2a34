package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
)

const (
	// mostGroups bounds what is kept of a queue in which every reason differs.
	mostGroups = 1000
	// otherReasons is the group of those beyond.
	otherReasons = "(other reasons)"
)

// group is the dead letters with one kind and reason.
type group struct {
	Kind   string    `json:"kind"`
	Reason string    `json:"reason"` // its first line
	Count  int       `json:"count"`
	Oldest time.Time `json:"oldest,omitzero"`
	Newest time.Time `json:"newest,omitzero"`
}

// groups counts dead letters by kind and reason.
type groups struct {
	out  List[*group]
	most int // to print, those with the most dead letters; 0: all
	all  map[[2]string]*group
}

// Groups returns a list that counts dead letters and prints the most groups
// at most, the largest first; 0: all.
func Groups(w io.Writer, asJSON bool, most int) List[*deadletter.Message] {
	g := &groups{most: most, all: map[[2]string]*group{}}
	if asJSON {
		g.out = newLines(w, func(one *group) any { return one })
		return g
	}
	g.out = table[*group]{term.NewTable(w,
		term.Column{Title: "COUNT"}, term.Column{Title: "KIND", Drop: 3}, term.Column{Title: "OLDEST", Drop: 1}, term.Column{Title: "NEWEST", Drop: 2},
		term.Column{Title: "REASON", Min: 3 * leastReason},
	), func(one *group) []string {
		return []string{fmt.Sprint(one.Count), one.Kind, term.Ago(one.Oldest), term.Ago(one.Newest), term.Brief(one.Reason, longest)}
	}}
	return g
}

func (g *groups) Row(m *deadletter.Message) error {
	reason, _, _ := strings.Cut(strings.TrimSpace(m.Reason()), "\n")
	key := [2]string{string(m.Kind()), reason}
	if g.all[key] == nil && len(g.all) >= mostGroups {
		key = [2]string{"", otherReasons}
	}
	if g.all[key] == nil {
		g.all[key] = &group{Kind: key[0], Reason: key[1]}
	}
	g.all[key].add(m.Origin.Time)
	return nil
}

func (g *group) add(died time.Time) {
	g.Count++
	if died.IsZero() {
		return
	}
	died = died.UTC()
	if g.Oldest.IsZero() || died.Before(g.Oldest) {
		g.Oldest = died
	}
	if died.After(g.Newest) {
		g.Newest = died
	}
}

func (g *groups) Flush() error {
	var sorted []*group
	for _, one := range g.all {
		sorted = append(sorted, one)
	}
	slices.SortFunc(sorted, func(a, b *group) int {
		return cmp.Or(b.Count-a.Count, strings.Compare(a.Reason, b.Reason), strings.Compare(a.Kind, b.Kind))
	})
	if g.most > 0 {
		sorted = sorted[:min(g.most, len(sorted))]
	}
	for _, one := range sorted {
		if err := g.out.Row(one); err != nil {
			return err
		}
	}
	return g.out.Flush()
}
