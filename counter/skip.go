package counter

import (
	"context"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// Skip has one generation of a message dead-lettered at its next step, whatever its limit: now if it waits for its
// backoff. The record and the tombstone keep the Note; the tombstone has CauseSkipped and the reason of the Note. A
// running attempt may end: if it succeeds, the message is handled. Reset cancels a skip. A message that was skipped
// before keeps its first Note. After an error other than ErrNoRecord and ErrOver it may or may not be skipped; it is
// safe to repeat.
func (a *Admin) Skip(ctx context.Context, m Message, n Note) error {
	if err := checkNote(n); err != nil {
		return failed("skip", m.Queue, err)
	}
	n = keptNote(n)
	err := a.decide(ctx, "skip", m, func(r *Record, q *rules.Queue, now time.Time) (Reply, time.Duration) {
		return rules.Skip(r, q, n, now)
	})
	if err != nil {
		return err
	}
	// An announcement lets the process that holds the message end its wait. Those that are over go.
	of := Queue{m.VHost, m.Queue}
	err = a.insist(ctx, of, nil, func(now time.Time, _ []Doc) (Change, error) {
		past, err := a.past(ctx, of, setSkips, now)
		until := now.Add(skipAnnounced)
		return Change{Sets: append(past, Member{Set: setSkips, Name: member(m.ID, m.Generation), Score: until.UnixMilli(),
			Expires: until.Add(time.Minute)})}, err
	})
	return failed("skip", m.Queue, err)
}

// past returns changes that remove members of a set whose score, a time, is before now: one page at most.
func (c *client) past(ctx context.Context, of Queue, set string, now time.Time) (gone []Member, err error) {
	found, err := c.store.Page(ctx, of, set, Entry{Score: now.UnixMilli()}, page)
	for _, e := range found {
		gone = append(gone, Member{Set: set, Name: e.Name, Gone: true})
	}
	return gone, err
}
