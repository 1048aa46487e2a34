package ops

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
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

	recorded *deadletter.Message // for addReason: one for all
}

// Add counts a dead letter.
func (t *Tally) Add(m *deadletter.Message) {
	var died time.Time
	if !m.Origin.Time.IsZero() {
		died = m.Origin.Time.UTC()
	}
	t.group(m.Kind(), t.names.Normalise(m.Reason())).add(died, m.Name())
}

// addReason is Add for a dead letter of which only the store's record is known.
func (t *Tally) addReason(r *counter.DeadReason) {
	if t.recorded == nil {
		t.recorded = deadletter.OfRecord(&counter.Record{})
	}
	m := t.recorded
	m.Record.Cause, m.Record.Reason = r.Cause, r.Reason
	t.group(m.Kind(), t.names.Normalise(m.Reason())).add(r.At, r.ID)
}

// ofReason is the dead letter of which the store knows r.
func (q *Queue) ofReason(r *counter.DeadReason) *deadletter.Message {
	of := counter.Message{VHost: q.VHost, Queue: q.Name, ID: r.ID}
	return deadletter.OfRecord(&counter.Record{Message: of, Cause: r.Cause, Reason: r.Reason, LastTime: r.At})
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

// add counts a dead letter that died at a time; zero: not known.
func (g *Group) add(died time.Time, name string) {
	g.Count++
	if !died.IsZero() && (g.Oldest.IsZero() || died.Before(g.Oldest)) {
		g.Oldest = died
	}
	if g.Example == "" || died.After(g.Newest) {
		g.Newest, g.Example = died, strings.Clone(name) // a part of a long reply
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

// Groups groups the dead letters of which the store has records, as of when it is called. A budget ends the count
// early; 0: none.
func (q *Queue) Groups(ctx context.Context, filter deadletter.Filter, budget time.Duration) (out Groups, err error) {
	if len(filter.IDs) > 0 || filter.Lane != "" {
		err = q.groupsOfNamed(ctx, filter, &out)
	} else {
		err = q.groupsOfReasons(ctx, filter, budget, &out)
	}
	if err == nil {
		out.Of, err = q.Store.CountDead(ctx, q.VHost, q.Name)
	}
	return out, err
}

// groupsOfNamed groups the dead letters of some ids.
func (q *Queue) groupsOfNamed(ctx context.Context, filter deadletter.Filter, out *Groups) error {
	var tally Tally
	for m, err := range q.EachDead(ctx, filter) {
		if err != nil {
			return err
		}
		tally.Add(m)
		out.Count++
	}
	out.Groups = tally.Groups()
	return nil
}

// groupsOfReasons groups the store's records of all dead letters.
func (q *Queue) groupsOfReasons(ctx context.Context, filter deadletter.Filter, budget time.Duration,
	out *Groups) error {
	began := time.Now()
	var tally Tally
	spent := false
	for found, err := range q.Store.DeadReasons(ctx, q.VHost, q.Name) {
		if err != nil {
			return err
		}
		if out.Partial = spent; spent {
			break
		}
		if !filter.Everything() {
			found = slices.DeleteFunc(found, func(r counter.DeadReason) bool { return !filter.Match(q.ofReason(&r), began) })
		}
		out.Count += len(found)
		for i := range found {
			tally.addReason(&found[i])
		}
		if q.Counting != nil {
			q.Counting(out.Count)
		}
		spent = budget > 0 && time.Since(began) > budget
	}
	out.Groups = tally.Groups()
	return nil
}
