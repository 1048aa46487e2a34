package console

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

const (
	deadPerPage = 50
	// rowsBudget and liveBudget end the search for rows that a filter picks.
	rowsBudget = 100 * time.Millisecond
	liveBudget = time.Second
	// groupsKept is how old groups may be that a page shows while they are counted again.
	groupsKept  = time.Minute
	countWithin = 10 * time.Second
	// groupsAge is how old groups may be: to count them again reads all records.
	groupsAge     = 10 * time.Second
	mostGroupings = 200
)

// deadView is the content of the page of dead letters. It comes from the store alone.
type deadView struct {
	Queue  string
	Filter filter
	Kinds  []deadletter.Kind
	Groups ops.Groups
	// Counted is when the groups were.
	Counted time.Time
	Page    ops.DeadPage
	Now     time.Time
	More    string
	Later   bool // not the first page
}

func (c *Console) deadPage(r *http.Request) (page, error) {
	queue := queueOf(r)
	f, err := filterOf(r.URL.Query())
	if err != nil {
		return page{}, err
	}
	after := r.FormValue("after")
	v := deadView{Queue: queue, Filter: f, Kinds: deadletter.Kinds(), Now: time.Now(), Later: after != ""}
	p := page{Screen: "dead", Queue: queue, Title: shown(queue) + ": dead letters"}
	budget := rowsBudget
	if isLive(r) {
		budget = liveBudget
	}
	var errRows, errGroups error
	var reading sync.WaitGroup
	reading.Go(func() {
		v.Page, errRows = guardedAsk(c, func() (ops.DeadPage, error) {
			return c.records(queue).Dead(r.Context(), ops.DeadQuery{Filter: f.Filter, Limit: deadPerPage, After: after,
				Budget: budget})
		})
	})
	v.Groups, v.Counted, errGroups = c.groups(r, queue, f)
	reading.Wait()
	if err := cmp.Or(errRows, errGroups); err != nil {
		return p, err
	}
	if v.Page.Next != "" {
		v.More = f.Link("dead", queue) + "&after=" + template.URLQueryEscaper(v.Page.Next)
	}
	p.Title = headlineOfDead(queue, v)
	if !v.Later {
		p.Live = f.Link("live", queue) + "&screen=dead"
	}
	p.View = v
	return p, nil
}

// groups returns the groups of a filter, and when they were counted. The first paint shows those of the newest dead
// letters unless all are known soon. The live stream replaces them, and a page without JavaScript has all when it is
// loaded again.
func (c *Console) groups(r *http.Request, queue string, f filter) (groups ops.Groups, at time.Time, err error) {
	if counted := c.grouping(queue, f); counted != nil {
		wait := c.patience.groups
		if isLive(r) {
			wait = c.patience.answer
		}
		waiting, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		a := counted.get(waiting, groupsAge)
		if a.Known && a.Err == nil && time.Since(a.At) < groupsKept {
			return a.Value, a.At, nil
		}
	}
	at = time.Now()
	groups, err = c.records(queue).Groups(r.Context(), ops.DeadQuery{Filter: f.Filter, Budget: c.patience.groups})
	return groups, at, err
}

// grouping counts the groups of a filter in the background; nil if too many are counted.
func (c *Console) grouping(queue string, f filter) *cached[ops.Groups] {
	key := [2]string{queue, f.subject()}
	c.mu.Lock()
	defer c.mu.Unlock()
	counted := c.grouped[key]
	if counted == nil && len(c.grouped) < mostGroupings {
		counted = newCached(c, func(ctx context.Context) (ops.Groups, error) {
			return c.records(queue).Groups(ctx, ops.DeadQuery{Filter: f.Filter, Budget: countWithin})
		})
		c.grouped[key] = counted
	}
	return counted
}

func headlineOfDead(queue string, v deadView) string {
	switch {
	case v.Groups.Count == 0 && v.Filter.Everything():
		return shown(queue) + ": the store knows no dead letters"
	case v.Groups.Count == 0:
		return shown(queue) + ": no dead letter matches"
	case v.Groups.Partial:
		return fmt.Sprintf("%s: at least %s", shown(queue), plural(v.Groups.Count, "dead letter"))
	}
	first := v.Groups.Groups[0]
	text := fmt.Sprintf("%s: %s, %s for %s", shown(queue), plural(v.Groups.Count, "dead letter"),
		digits(int64(first.Count)), why(first.Reason))
	if first.Kind != "" && first.Kind != deadletter.KindFailed { // as of a skip, which has an operator's reason
		text += fmt.Sprintf(" (%s)", first.Kind)
	}
	return text
}

// Link is the address of the dead letters of a group among those that the filter picks.
func (v deadView) Link(g *ops.Group) string {
	f := filter{values: maps.Clone(v.Filter.values)}
	f.values.Set("group", g.Key)
	return f.Link("dead", v.Queue)
}

// Died is how long ago a message died.
func (v deadView) Died(m *deadletter.Message) string {
	if m.Origin.Time.IsZero() {
		return "not known"
	}
	return printable.Rough(max(v.Now.Sub(m.Origin.Time), 0)) + " ago"
}
