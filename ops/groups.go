package ops

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/internal/reason"
)

// mostGroups bounds the groups of a queue in which every reason differs.
const mostGroups = 1000

// Group is the dead letters of one kind whose reasons differ only in numbers, names and the like.
type Group struct {
	// Key is that of deadletter.Message.Group. Key and Kind are empty for all dead letters beyond a thousand groups.
	Key     string          `json:"key,omitempty"`
	Kind    deadletter.Kind `json:"kind"`
	Reason  string          `json:"reason"` // normalised
	Count   int             `json:"count"`
	Oldest  time.Time       `json:"oldest,omitzero"` // death; zero if no message says when
	Newest  time.Time       `json:"newest,omitzero"`
	Example string          `json:"example,omitempty"` // name of one of the newest; see deadletter.Message.Name
}

// Tally counts dead letters by group. The zero value is empty.
type Tally struct {
	groups map[[2]string]*Group
	names  reason.Normaliser
}

// Add counts a dead letter.
func (t *Tally) Add(m *deadletter.Message) {
	var died time.Time
	if !m.Origin.Time.IsZero() {
		died = m.Origin.Time.UTC()
	}
	t.group(m.Kind(), t.names.Normalise(m.Reason())).add(1, died, died, m.Name())
}

// group returns a group, or the one for all those beyond the bound.
func (t *Tally) group(kind deadletter.Kind, why string) *Group {
	if t.groups == nil {
		t.groups = map[[2]string]*Group{}
	}
	key := [2]string{string(kind), why}
	if t.groups[key] == nil && len(t.groups) >= mostGroups {
		key = [2]string{}
	}
	g := t.groups[key]
	if g == nil {
		g = &Group{Kind: deadletter.Kind(key[0]), Reason: key[1]}
		if key != [2]string{} {
			g.Key = reason.Key(key[0], key[1])
		}
		t.groups[key] = g
	}
	return g
}

// add counts n dead letters, of which newest has the later time.
func (g *Group) add(n int, from, to time.Time, newest string) {
	g.Count += n
	if !from.IsZero() && (g.Oldest.IsZero() || from.Before(g.Oldest)) {
		g.Oldest = from
	}
	if g.Example == "" || to.After(g.Newest) {
		g.Newest, g.Example = to, strings.Clone(newest) // a part of a long reply
	}
}

// Groups returns the groups, the largest first.
func (t *Tally) Groups() []*Group {
	return slices.SortedFunc(maps.Values(t.groups), func(a, b *Group) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Kind, b.Kind))
	})
}

// Groups is the dead letters of a queue by kind and reason.
type Groups struct {
	Groups  []*Group // the largest first
	Count   int      // dead letters in them
	Of      int      // dead letters that the store has records of, whatever the filter
	Partial bool     // the budget or the limit ended the count: only the newest are in it
}

// Groups groups the dead letters of which the store has records, as of when it is called. The query's Limit is that of
// the records which are read, and its Budget ends the count early.
func (q *Queue) Groups(ctx context.Context, query DeadQuery) (out Groups, err error) {
	if len(query.Filter.IDs) > 0 {
		var tally Tally
		for m, err := range q.EachDead(ctx, query.Filter) {
			if err != nil {
				return out, err
			}
			tally.Add(m)
			out.Count++
		}
		out.Groups = tally.Groups()
	} else if err := q.groupsOfReasons(ctx, query, &out); err != nil {
		return out, err
	}
	out.Of, err = q.Store.CountDead(ctx, q.VHost, q.Name)
	out.Partial = out.Partial || query.Limit > 0 && out.Of > query.Limit
	return out, err
}

// groupsOfReasons groups the store's records of all dead letters.
func (q *Queue) groupsOfReasons(ctx context.Context, query DeadQuery, out *Groups) error {
	began := time.Now()
	// to normalise reasons that all differ takes longer than to read them
	workers := min(runtime.GOMAXPROCS(0), 4)
	tallies := make(chan *Tally, workers)
	for range workers {
		tallies <- new(Tally)
	}
	var counting panics.Group
	counting.SetLimit(workers)
	defer counting.Wait() //nolint:errcheck // none fails
	spent := false
	for found, err := range q.Store.DeadReasons(ctx, q.VHost, q.Name, query.Limit) {
		if err != nil {
			return err
		}
		if out.Partial = spent; spent {
			break
		}
		if !query.Filter.Everything() {
			found = slices.DeleteFunc(found, func(r counter.DeadReason) bool {
				of := counter.Message{VHost: q.VHost, Queue: q.Name, ID: r.ID}
				return !query.Filter.Match(deadletter.OfRecord(&counter.Record{Message: of, Cause: r.Cause, Reason: r.Reason,
					LastTime: r.At}), began)
			})
		}
		out.Count += len(found)
		counting.Go(func() error {
			t, m := <-tallies, deadletter.OfRecord(&counter.Record{}) // one for all
			defer func() { tallies <- t }()
			for _, r := range found {
				m.Record.Cause, m.Record.Reason = r.Cause, r.Reason
				t.group(m.Kind(), t.names.Normalise(m.Reason())).add(1, r.At, r.At, r.ID)
			}
			return nil
		})
		spent = query.Budget > 0 && time.Since(began) > query.Budget
	}
	_ = counting.Wait()
	all := <-tallies
	for range workers - 1 {
		for _, from := range (<-tallies).Groups() {
			all.group(from.Kind, from.Reason).add(from.Count, from.Oldest, from.Newest, from.Example)
		}
	}
	out.Groups = all.Groups()
	return nil
}
