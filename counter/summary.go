package counter

import (
	"context"
	"errors"
	"time"

	"github.com/strikesmq/strikes/internal/panics"
)

const (
	// summaryMost is how many records of a queue are read: those that were written last.
	summaryMost = 10_000
	// summaryReaders is how many queues are read at the same time. Each takes several round trips.
	summaryReaders = 24
)

// ForgottenAfter is how long a message may be ready for its next attempt before it is forgotten, see IsForgotten.
const ForgottenAfter = 5 * time.Minute

// IsForgotten reports whether no consumer takes a message: it has been ready for more than ForgottenAfter. An attempt
// that is not counted writes no record. So no message is forgotten while the breaker of its queue stops, or rests: the
// queue is paused, or a consumer reports that it holds messages. The time before the breaker closed does not count.
func IsForgotten(r Record, b Breaker, rests bool, now time.Time) bool {
	ready := r.Due
	if ready.IsZero() {
		ready = r.LastTime
	}
	if b.Closed.After(ready) {
		ready = b.Closed
	}
	return r.OpenToken == "" && !rests && !b.Stops() && now.Sub(ready) > ForgottenAfter
}

// Summary is the state of a queue in the store. Do not print its strings on a terminal unescaped.
type Summary struct {
	Queue string
	Time  time.Time // by the store's clock

	Retrying int // messages that failed, or run again, and are not dead-lettered
	// of Retrying, see IsForgotten: there is no consumer, or the message left the queue otherwise
	Forgotten int
	// of Retrying, the one that began first; one that is forgotten, or waits in a delay queue, only if all are; nil:
	// there is none
	Head   *Record
	Recent int // messages dead-lettered so recently that they may be on their way

	Tombstones  Tombstones
	Override    *Override // nil: none, or one that consumers ignore
	Undecodable string    // the note of NoteUndecodable, of the last minute
	Paused      *Note     // nil: the queue is not paused
	Waiting     Waiting   // of all processes: their messages together, and the report of the message held for longest

	Breaker Breaker

	BlockedLanes int     // lanes that are blocked
	Blocked      Blocked // the dead letters in them that had no attempt

	Partial bool  // the queue has more records than were read
	Err     error // why nothing is known of this queue, such as ErrForeign; nil: it is
}

// Summaries returns a Summary of each queue, in their order. It reads 24 queues at a time, and of each at most the
// 10,000 records that were written last. Recent is how long a dead letter may be on its way.
func (a *Admin) Summaries(ctx context.Context, vhost string, queues []string, recent time.Duration) ([]Summary, error) {
	out := make([]Summary, len(queues))
	var reading panics.Group
	reading.SetLimit(summaryReaders)
	for i, queue := range queues {
		s := &out[i]
		s.Queue = queue
		reading.Go(func() error {
			err := failed("summary", queue, a.summarise(ctx, Queue{vhost, queue}, s, recent))
			if errors.Is(err, ErrForeign) {
				s.Err, err = err, nil
			}
			return err
		})
	}
	if err := reading.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

func (a *Admin) summarise(ctx context.Context, of Queue, s *Summary, recent time.Duration) (err error) {
	if err = a.summariseQueue(ctx, of, s); err == nil {
		err = a.summariseRecords(ctx, of, s)
	}
	if err == nil {
		err = a.summariseDead(ctx, of, s, recent)
	}
	if err == nil {
		s.Blocked, err = a.blocked(ctx, of, recent)
		s.BlockedLanes = int(s.Blocked.Lanes)
	}
	return err
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

func (a *Admin) summariseRecords(ctx context.Context, of Queue, s *Summary) error {
	read, away := 0, false // away: the head is forgotten, or waits in a delay queue
	for found, err := range a.pages(ctx, of, setIndex, Entry{}, longPage) {
		if read == summaryMost {
			s.Partial = true
			return nil
		}
		read += len(found)
		var records []*Record
		if err == nil {
			records, err = a.read(ctx, of, namesOf("", found))
		}
		if err != nil {
			return err
		}
		for _, r := range records {
			if r == nil || r.State != StateLive || r.Counted() == 0 && r.OpenToken == "" {
				continue
			}
			late := IsForgotten(*r, s.Breaker, s.Paused != nil || s.Waiting.Messages > 0, s.Time)
			gone := late || r.OpenToken == "" && r.Due.After(s.Time) && r.Move.Top > 0
			s.Retrying++
			s.Forgotten += flag(late)
			if s.Head == nil || away && !gone || away == gone && r.Since().Before(s.Head.Since()) {
				s.Head, away = r, gone
			}
		}
	}
	return nil
}

// summariseDead counts the newest tombstones that are recent. A few old ones among them were renewed.
func (a *Admin) summariseDead(ctx context.Context, of Queue, s *Summary, recent time.Duration) error {
	stale, read := 0, 0
	for some, err := range a.deadReasons(ctx, of, summaryMost+1, page/4) {
		if err != nil {
			return err
		}
		for _, dead := range some {
			switch {
			case read == summaryMost:
				s.Partial = true
				return nil
			case s.Time.Sub(dead.At) < recent:
				s.Recent++
			case stale == 9:
				return nil
			default:
				stale++
			}
			read++
		}
	}
	return nil
}
