package counter

import (
	"context"
	"errors"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// summariseStored does the same as scripts/summary.lua for one queue, on any Store.
func (a *Admin) summariseStored(ctx context.Context, of Queue, s *Summary, recent time.Duration) error {
	for _, read := range []func(context.Context, Queue, *Summary, time.Duration) error{
		a.summariseQueue, a.summariseRecords, a.summariseDead, a.summariseLanes,
	} {
		err := read(ctx, of, s, recent)
		if errors.Is(err, ErrForeign) {
			s.Err = err
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *Admin) summariseQueue(ctx context.Context, of Queue, s *Summary, _ time.Duration) error {
	now, docs, err := a.load(ctx, of, docLimit, docPause, docTombstones, docBreaker, docUndecodable)
	if err != nil {
		return err
	}
	q, err := a.readQueue(docs, Message{VHost: of.VHost, Queue: of.Name})
	if err != nil {
		return err
	}
	existing, err := a.store.Count(ctx, of, setDead, now.UnixMilli())
	if err != nil {
		return err
	}
	s.Time, s.Override, s.Tombstones, s.Undecodable = now, q.Override, withExpired(q.Tombstones, int64(existing)),
		docs[4].Data
	s.Breaker = q.Breaker
	if q.Paused {
		s.Paused = &q.Pause
	}
	consumers, err := a.consumers(ctx, of, s.Paused)
	for _, c := range consumers {
		s.Waiting = s.Waiting.together(c.Waiting)
	}
	return err
}

func (a *Admin) summariseRecords(ctx context.Context, of Queue, s *Summary, _ time.Duration) error {
	read, away := 0, false // away: the head is forgotten, or waits in a delay queue
	err := a.pages(ctx, of, setIndex, summaryPage, func(found []Entry) error {
		if read == summaryMost {
			s.Partial = true
			return errEnough
		}
		read += len(found)
		members := make([]string, len(found))
		for i, e := range found {
			members[i] = e.Name
		}
		return a.readEach(ctx, of.VHost, of.Name, members, func(_ int, r Record) {
			if r.State != StateLive || r.Counted() == 0 && r.OpenToken == "" {
				return
			}
			late := IsForgotten(r, s.Breaker, s.Paused != nil || s.Waiting.Messages > 0, s.Time)
			gone := late || r.OpenToken == "" && r.Due.After(s.Time) && r.Move.Top > 0
			s.Retrying++
			s.Forgotten += flag(late)
			if s.Head == nil || away && !gone || away == gone && r.Since().Before(s.Head.Since()) {
				s.Head, away = &r, gone
			}
		})
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// summariseDead counts the newest tombstones that are recent. A few old ones among them were renewed.
func (a *Admin) summariseDead(ctx context.Context, of Queue, s *Summary, recent time.Duration) error {
	stale, read := 0, 0
	for size, w := page/4, (&walk{set: setDead}); ; size = min(size*2, 5*page) {
		_, texts, err := a.deadTexts(ctx, of, w, size)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if read == summaryMost {
				s.Partial = true
				return nil
			}
			if dead, ok := rules.DecodeDead(text); ok && s.Time.Sub(dead.LastTime) < recent {
				s.Recent++
			} else {
				stale++
			}
			if read++; stale > 9 {
				return nil
			}
		}
		if len(texts) < size {
			return nil
		}
	}
}

func (a *Admin) summariseLanes(ctx context.Context, of Queue, s *Summary, recent time.Duration) (err error) {
	s.Blocked, err = a.Blocked(ctx, of.VHost, of.Name, recent)
	s.BlockedLanes = int(s.Blocked.Lanes)
	return err
}
