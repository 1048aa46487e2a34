package ops

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
)

// DeadQuery asks for the dead letters of a queue.
type DeadQuery struct {
	Filter deadletter.Filter
	Limit  int           // how many at most; 0: all
	After  string        // DeadPage.Next of the page before; empty: the newest
	Budget time.Duration // ends the search for more; 0: none
}

// DeadPage is one page of dead letters, the newest first. Replayed and dropped ones are not among them.
type DeadPage struct {
	Dead    []*deadletter.Message // with their Record and without the message: see deadletter.OfRecord
	Next    string                // After of the next page; empty: there is none
	Partial bool                  // the Budget ended the page
}

// Dead returns the dead letters of which the store has records. It does not ask the broker: a message may have left the
// dead-letter queue otherwise.
func (q *Queue) Dead(ctx context.Context, query DeadQuery) (page DeadPage, err error) {
	begun := time.Now()
	for r, err := range q.tombstones(ctx, query.Filter, query.After) {
		if err != nil {
			return page, err
		}
		if m := deadletter.OfRecord(&r.Record); query.Filter.Match(m, begun) {
			page.Dead = append(page.Dead, m)
		}
		if query.Limit > 0 && len(page.Dead) == query.Limit {
			page.Next = r.After
			break
		}
		if query.Budget > 0 && r.After != "" && time.Since(begun) > query.Budget {
			page.Partial, page.Next = true, r.After
			break
		}
	}
	return page, nil
}

// EachDead yields the dead letters that the filter picks and of which the store has records, the newest first. It
// yields an error once and stops.
func (q *Queue) EachDead(ctx context.Context, filter deadletter.Filter) iter.Seq2[*deadletter.Message, error] {
	return func(yield func(*deadletter.Message, error) bool) {
		begun := time.Now()
		for r, err := range q.tombstones(ctx, filter, "") {
			if err != nil {
				yield(nil, err)
				return
			}
			if m := deadletter.OfRecord(&r.Record); filter.Match(m, begun) && !yield(m, nil) {
				return
			}
		}
	}
}

// tombstones yields the records of the dead letters with the ids of a filter, or of all, the newest first. It yields an
// error once and stops.
func (q *Queue) tombstones(ctx context.Context, filter deadletter.Filter, after string) iter.Seq2[counter.Dead, error] {
	if len(filter.IDs) == 0 {
		return q.Store.Dead(ctx, q.VHost, q.Name, after)
	}
	return func(yield func(counter.Dead, error) bool) {
		found, err := q.Store.GetAll(ctx, q.VHost, q.Name, filter.IDs)
		if err != nil {
			yield(counter.Dead{}, err)
			return
		}
		var dead []counter.Dead
		for _, id := range filter.IDs {
			for _, r := range found[id] {
				r.ID = id // a record keeps only the beginning of a long one
				if r.State == counter.StateDeadLetter && r.Removed.IsZero() {
					dead = append(dead, counter.Dead{Record: r})
				}
			}
		}
		slices.SortStableFunc(dead, func(a, b counter.Dead) int { return b.LastTime.Compare(a.LastTime) })
		for _, r := range dead {
			if !yield(r, nil) {
				return
			}
		}
	}
}
