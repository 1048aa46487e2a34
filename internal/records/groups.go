package records

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/reason"
)

// mostGroups bounds what is kept of a queue in which every reason differs.
const mostGroups = 1000

// Group is the dead letters of one kind whose reasons differ only in numbers, names and the like.
type Group struct {
	Kind   deadletter.Kind
	Reason string // normalised; empty with an empty Kind: all those beyond a thousand groups
	Count  int
	Oldest time.Time // death; zero if no message says when
	Newest time.Time
	// Example is one of the newest.
	Example *deadletter.Message
}

// Tally counts dead letters by group. The zero value is empty.
type Tally struct {
	groups map[[2]string]*Group
	known  map[string]string // normalised reasons
}

// Add counts a dead letter.
func (t *Tally) Add(m *deadletter.Message) {
	if t.groups == nil {
		t.groups, t.known = map[[2]string]*Group{}, map[string]string{}
	}
	key := [2]string{string(m.Kind()), t.normalise(m.Reason())}
	if t.groups[key] == nil && len(t.groups) >= mostGroups {
		key = [2]string{}
	}
	g := t.groups[key]
	if g == nil {
		g = &Group{Kind: deadletter.Kind(key[0]), Reason: key[1]}
		t.groups[key] = g
	}
	g.add(m)
}

// normalise remembers what it normalised: most reasons come often.
func (t *Tally) normalise(text string) string {
	if known, ok := t.known[text]; ok {
		return known
	}
	if len(t.known) >= mostGroups {
		clear(t.known)
	}
	t.known[text] = reason.Normalise(text)
	return t.known[text]
}

func (g *Group) add(m *deadletter.Message) {
	died := m.Origin.Time.UTC()
	if g.Count++; g.Example == nil {
		g.Example = m
	}
	if m.Origin.Time.IsZero() {
		return
	}
	if g.Oldest.IsZero() || died.Before(g.Oldest) {
		g.Oldest = died
	}
	if died.After(g.Newest) {
		g.Newest, g.Example = died, m
	}
}

// Groups returns the groups, the largest first.
func (t *Tally) Groups() []*Group {
	var sorted []*Group
	for _, g := range t.groups {
		sorted = append(sorted, g)
	}
	slices.SortFunc(sorted, func(a, b *Group) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Kind, b.Kind))
	})
	return sorted
}

// Groups is the dead letters of a queue by kind and reason.
type Groups struct {
	Groups  []*Group // the largest first
	Count   int      // dead letters in them
	Of      int      // dead letters that the store has records of, whatever the filter
	Partial bool     // the budget ended the count: only the newest are in it
}

// Groups groups the dead letters of which the store has records. A budget ends the count early; 0: none.
func (q *Queue) Groups(ctx context.Context, filter deadletter.Filter, budget time.Duration) (Groups, error) {
	var tally Tally
	var out Groups
	_, ended, err := q.eachDead(ctx, filter, "", budget, func(m *deadletter.Message) bool {
		tally.Add(m)
		out.Count++
		return true
	})
	if err != nil {
		return out, err
	}
	out.Groups, out.Partial = tally.Groups(), ended
	out.Of, err = q.Store.CountDead(ctx, q.VHost, q.Name)
	return out, err
}
