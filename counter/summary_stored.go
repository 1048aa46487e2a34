package counter

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/panics"
)

// summarise reads the summary of one queue.
func (a *Admin) summarise(ctx context.Context, of Queue, s *Summary, recent time.Duration) (err error) {
	if err = a.summariseQueue(ctx, of, s); err == nil {
		var counting panics.Group // beside the rest, because a database needs 20 ms to count 100,000 tombstones
		existing := 0
		counting.Go(func() (err error) {
			existing, err = a.store.Count(ctx, of, setDead, s.Time.UnixMilli())
			return err
		})
		if err = a.summariseRecords(ctx, of, s); err == nil {
			err = a.summariseDead(ctx, of, s, recent)
		}
		err = cmp.Or(err, counting.Wait())
		s.Tombstones = withExpired(s.Tombstones, int64(existing))
	}
	if err == nil {
		s.Blocked, err = a.blocked(ctx, of, recent)
		s.BlockedLanes = int(s.Blocked.Lanes)
	}
	if errors.Is(err, ErrForeign) {
		s.Err, err = failed("summary", of.Name, err), nil
	}
	return failed("summary", of.Name, err)
}

func (a *Admin) summariseQueue(ctx context.Context, of Queue, s *Summary) error {
	now, docs, err := a.load(ctx, of, docLimit, docPause, docTombstones, docBreaker, docUndecodable)
	if err != nil {
		return err
	}
	q, err := a.readQueue(docs, Message{VHost: of.VHost, Queue: of.Name})
	if err != nil {
		return err
	}
	s.Time, s.Override, s.Tombstones, s.Undecodable, s.Breaker = now, q.Override, q.Tombstones, docs[4].Data, q.Breaker
	if q.Paused {
		s.Paused = &Pause{q.Pause, q.Holding}
	}
	consumers, err := a.consumers(ctx, of, s.Paused)
	for _, c := range consumers {
		s.Waiting = s.Waiting.together(c.Waiting)
	}
	return err
}

func (a *Admin) summariseRecords(ctx context.Context, of Queue, s *Summary) error {
	read, away := 0, false // away: the head is forgotten, or waits in a delay queue
	for p, err := range a.readPages(ctx, of, setIndex, Entry{}, summaryPage, summaryMost+1) {
		if err != nil {
			return err
		}
		for _, text := range p.texts {
			if read++; read > summaryMost {
				s.Partial = true
				return nil
			}
			r := parseRecord(Message{VHost: of.VHost, Queue: of.Name}, text, 0)
			if r.State != StateLive || r.Counted() == 0 && r.OpenToken == "" {
				continue
			}
			late := IsForgotten(r, s.Breaker, s.Paused != nil || s.Waiting.Messages > 0, s.Time)
			gone := late || r.OpenToken == "" && r.Due.After(s.Time) && r.Move.Top > 0
			s.Retrying++
			s.Forgotten += flag(late)
			if s.Head == nil || away && !gone || away == gone && r.Since().Before(s.Head.Since()) {
				head := r
				s.Head, away = &head, gone
			}
		}
	}
	return nil
}

// summariseDead counts the newest tombstones that are recent. A few old ones among them were renewed.
func (a *Admin) summariseDead(ctx context.Context, of Queue, s *Summary, recent time.Duration) error {
	stale, read := 0, 0
	for p, err := range a.readPages(ctx, of, setDead, Entry{}, page/4, summaryMost+1) {
		if err != nil {
			return err
		}
		for _, text := range p.texts {
			if read++; read > summaryMost {
				s.Partial = true
				return nil
			}
			if dead, ok := rules.DecodeDead(text); ok && s.Time.Sub(dead.LastTime) < recent {
				s.Recent++
			} else {
				stale++
			}
			if stale > 9 {
				return nil
			}
		}
	}
	return nil
}
