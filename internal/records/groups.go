package records

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
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
	names  reason.Normaliser
}

// Add counts a dead letter.
func (t *Tally) Add(m *deadletter.Message) {
	t.group(m.Kind(), t.names.Normalise(m.Reason())).add(m)
}

// group returns a group, or the one for all those beyond the bound.
func (t *Tally) group(kind deadletter.Kind, reason string) *Group {
	if t.groups == nil {
		t.groups = map[[2]string]*Group{}
	}
	key := [2]string{string(kind), reason}
	if t.groups[key] == nil && len(t.groups) >= mostGroups {
		key = [2]string{}
	}
	g := t.groups[key]
	if g == nil {
		g = &Group{Kind: deadletter.Kind(key[0]), Reason: key[1]}
		t.groups[key] = g
	}
	return g
}

// merge adds what another has counted.
func (t *Tally) merge(other *Tally) {
	for _, from := range other.Groups() {
		g := t.group(from.Kind, from.Reason)
		g.Count += from.Count
		if g.Example == nil {
			g.Example = from.Example
		}
		g.span(from.Oldest, from.Newest, from.Example)
	}
}

func (g *Group) add(m *deadletter.Message) {
	if g.Count++; g.Example == nil {
		g.Example = m
	}
	if died := m.Origin.Time; !died.IsZero() {
		g.span(died.UTC(), died.UTC(), m)
	}
}

// span extends the times; newest is the dead letter of the later one.
func (g *Group) span(from, to time.Time, newest *deadletter.Message) {
	if !from.IsZero() && (g.Oldest.IsZero() || from.Before(g.Oldest)) {
		g.Oldest = from
	}
	if to.After(g.Newest) {
		g.Newest, g.Example = to, newest
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
	var out Groups
	counting := newTallies()
	_, ended, err := q.eachDead(ctx, filter, "", budget, func(m *deadletter.Message) bool {
		counting.add(m)
		if out.Count++; q.Counting != nil {
			q.Counting(out.Count)
		}
		return true
	})
	tally := counting.end()
	if err != nil {
		return out, err
	}
	out.Groups, out.Partial = tally.Groups(), ended
	out.Of, err = q.Store.CountDead(ctx, q.VHost, q.Name)
	return out, err
}

// tallies count in the background: to normalise reasons takes longer than to read them.
type tallies struct {
	next    []*deadletter.Message
	chunks  chan []*deadletter.Message
	each    []Tally
	workers sync.WaitGroup
}

// chunk is how many dead letters a worker takes.
const chunk = 500

func newTallies() *tallies {
	t := &tallies{chunks: make(chan []*deadletter.Message, 1), each: make([]Tally, min(runtime.GOMAXPROCS(0), 4))}
	for i := range t.each {
		t.workers.Go(func() {
			for messages := range t.chunks {
				for _, m := range messages {
					t.each[i].Add(m)
				}
			}
		})
	}
	return t
}

func (t *tallies) add(m *deadletter.Message) {
	if t.next = append(t.next, m); len(t.next) == chunk {
		t.chunks <- t.next
		t.next = make([]*deadletter.Message, 0, chunk)
	}
}

// end waits for all and returns their sum.
func (t *tallies) end() *Tally {
	t.chunks <- t.next
	close(t.chunks)
	t.workers.Wait()
	all := &t.each[0]
	for i := range t.each[1:] {
		all.merge(&t.each[1+i])
	}
	return all
}
