package ops

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
)

// ErrLane is returned for a filter by lane, which needs the messages themselves.
var ErrLane = errors.New("records: a filter by lane needs the messages: the records do not have their headers")

// DeadQuery asks for the dead letters of a queue.
type DeadQuery struct {
	Filter deadletter.Filter // without Lane
	Limit  int               // how many at most; 0: all
	After  string            // DeadPage.Next of the page before; empty: the newest
	Budget time.Duration     // ends the search for more; 0: none
}

// DeadPage is one page of dead letters, the newest first. Replayed and dropped ones are not among them.
type DeadPage struct {
	Dead    []*deadletter.Message // with their Record and without the message: see deadletter.OfRecord
	Next    string                // After of the next page; empty: there is none
	Partial bool                  // the Budget ended the page
}

// Dead returns the dead letters of which the store has records. It does not ask the broker: a message may have left the
// dead-letter queue otherwise.
func (q *Queue) Dead(ctx context.Context, query DeadQuery) (DeadPage, error) {
	var page DeadPage
	last, ended, err := q.eachDead(ctx, query.Filter, query.After, query.Budget, func(m *deadletter.Message) bool {
		page.Dead = append(page.Dead, m)
		return len(page.Dead) != query.Limit
	})
	page.Partial = ended
	if ended || len(page.Dead) == query.Limit {
		page.Next = last
	}
	return page, err
}

// EachDead yields the dead letters that the filter picks and of which the store has records, the newest first. It
// yields an error once and stops.
func (q *Queue) EachDead(ctx context.Context, filter deadletter.Filter) iter.Seq2[*deadletter.Message, error] {
	return func(yield func(*deadletter.Message, error) bool) {
		_, _, err := q.eachDead(ctx, filter, "", 0, func(m *deadletter.Message) bool { return yield(m, nil) })
		if err != nil {
			yield(nil, err)
		}
	}
}

// Knows reports whether the store's records can tell which dead letters of the queue a filter picks. They have no
// headers, nothing of messages that died in other queues, and nothing of those that the broker dead-lettered by
// itself or that were not counted: the key of a group does not tell whether it is one of these.
func (q *Queue) Knows(filter deadletter.Filter) bool {
	switch filter.Kind {
	case deadletter.KindNoRecord, deadletter.KindDeliveryLimit, deadletter.KindExpired, deadletter.KindOverflow,
		deadletter.KindUnknown:
		return false
	default:
		return filter.Lane == "" && filter.Group == "" && (filter.Queue == "" || filter.Queue == q.Name)
	}
}

// eachDead calls f with the dead letters that the filter picks, the newest first, until f returns false. It returns the
// place of the last record that it read, and whether the budget ended it.
func (q *Queue) eachDead(ctx context.Context, filter deadletter.Filter, after string, budget time.Duration,
	f func(*deadletter.Message) bool) (last string, ended bool, err error) {
	if filter.Lane != "" {
		return "", false, ErrLane
	}
	if len(filter.IDs) > 0 {
		return "", false, q.eachNamed(ctx, filter, f)
	}
	begun := time.Now()
	for r, err := range q.Store.Dead(ctx, q.VHost, q.Name, after) {
		if err != nil {
			return last, false, err
		}
		last = r.After
		m := deadletter.OfRecord(&r.Record)
		if filter.Match(m, begun) && !f(m) {
			break
		}
		if budget > 0 && time.Since(begun) > budget {
			return last, true, nil
		}
	}
	return last, false, nil
}

// eachNamed is eachDead for the dead letters of some ids.
func (q *Queue) eachNamed(ctx context.Context, filter deadletter.Filter, f func(*deadletter.Message) bool) error {
	var dead []*deadletter.Message
	now := time.Now()
	found, err := q.Store.GetAll(ctx, q.VHost, q.Name, filter.IDs)
	if err != nil {
		return err
	}
	for _, id := range filter.IDs {
		records := found[id]
		for i, r := range records {
			records[i].ID = id // a record keeps only the beginning of a long one
			if m := deadletter.OfRecord(&records[i]); r.State == counter.StateDeadLetter && r.Removed.IsZero() &&
				filter.Match(m, now) {
				dead = append(dead, m)
			}
		}
	}
	slices.SortStableFunc(dead, func(a, b *deadletter.Message) int { return b.Origin.Time.Compare(a.Origin.Time) })
	for _, m := range dead {
		if !f(m) {
			break
		}
	}
	return nil
}
