package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/panics"
)

const (
	// summaryPage is how many records one request reads.
	summaryPage = 1000
	// summaryMost is how many records of a queue are read: those that were written last.
	summaryMost = 10_000
	// summaryReaders is how many queues are read at the same time. Each takes several round trips.
	summaryReaders = 8
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

// QueueState is the store's data about a queue as a whole. Do not print its strings on a terminal unescaped.
type QueueState struct {
	Time        time.Time // by the store's clock
	Override    *Override // nil: none, or one that consumers ignore
	Ignored     error     // why consumers ignore the override; it wraps ErrOverride
	Paused      *Pause    // nil: the queue is not paused
	Breaker     Breaker
	Tombstones  Tombstones
	Undecodable string // the note of NoteUndecodable, of the last minute

	// Consumers are the processes that consumed the queue within the last minute, sorted by Consumer. A process that has
	// left is not among them. Compare Seen with Time: one that was not seen for a few seconds is dead, or does not reach
	// the store.
	Consumers []ConsumerState
}

// State returns the data about a queue as a whole. If another program wrote to a key of the queue (ErrForeign), it
// returns the rest too.
func (a *Admin) State(ctx context.Context, vhost, queue string) (QueueState, error) {
	of := Queue{vhost, queue}
	s, err := a.state(ctx, of)
	if err == nil { // after the counts: a message that dies meanwhile is not among the expired
		var existing int
		existing, err = a.store.Count(ctx, of, setDead, s.Time.UnixMilli())
		s.Tombstones = withExpired(s.Tombstones, int64(existing))
	}
	return s, failed("state", queue, err)
}

// state is State without the tombstones that expired.
func (a *Admin) state(ctx context.Context, of Queue) (QueueState, error) {
	now, docs, err := a.store.Load(ctx, of, slices.Concat(aboutQueue, []string{docPause, docUndecodable})...)
	if err != nil {
		return QueueState{}, err
	}
	q, err := a.readQueue(docs)
	s := QueueState{Time: now, Override: q.Override, Breaker: q.Breaker, Tombstones: q.Tombstones,
		Paused: pauseOf(decodeFields(docs[3].Data), of), Undecodable: docs[4].Data}
	_, ignored := overrideOf(decodeFields(docs[0].Data))
	s.Ignored = failed("limit", of.Name, ignored)
	var unlisted error
	s.Consumers, unlisted = a.consumers(ctx, of, s.Paused)
	return s, cmp.Or(limitError(docs[0].Err), err, docs[3].Err, docs[4].Err, unlisted)
}

// Summary is the state of a queue in the store, and of its messages. Do not print its strings on a terminal unescaped.
type Summary struct {
	Queue string
	QueueState

	Retrying int // messages that failed, or run again, and are not dead-lettered
	// of Retrying, see IsForgotten: there is no consumer, or the message left the queue otherwise
	Forgotten int
	// Head is the message of Retrying that began first, without TTL. One that is forgotten or waits in a delay queue
	// is Head only if all others do so too. If nil, Retrying is 0.
	Head    *Record
	Records []Record // of Retrying, in no order and without TTL; only Summary returns them
	Recent  int      // messages dead-lettered so recently that they may be on their way

	BlockedLanes int     // lanes that are blocked
	Blocked      Blocked // the dead letters in them that had no attempt

	Partial bool  // the queue has more records than were read
	Err     error // why nothing is known of this queue, such as ErrForeign; nil: it is
}

// Summaries returns a Summary of each queue, in their order. It reads 8 queues at a time, and at most the 10,000
// records of a queue that were written last. Recent is how long a dead letter may be on its way.
func (a *Admin) Summaries(ctx context.Context, vhost string, queues []string, recent time.Duration) ([]Summary, error) {
	out := make([]Summary, len(queues))
	var reading panics.Group
	reading.SetLimit(summaryReaders)
	for i, queue := range queues {
		out[i].Queue = queue
		reading.Go(func() error { return a.summarise(ctx, Queue{vhost, queue}, &out[i], recent) })
	}
	if err := reading.Wait(); err != nil {
		return nil, fmt.Errorf("counter: summaries: %w", err)
	}
	return out, nil
}

// Summary is Summaries of one queue, with the Records of its messages.
func (a *Admin) Summary(ctx context.Context, vhost, queue string, recent time.Duration) (Summary, error) {
	s := Summary{Queue: queue, Records: []Record{}}
	err := a.summarise(ctx, Queue{vhost, queue}, &s, recent)
	return s, cmp.Or(err, s.Err)
}

// summarise reads the summary of one queue, and keeps the Records unless they are nil.
func (a *Admin) summarise(ctx context.Context, of Queue, s *Summary, recent time.Duration) (err error) {
	if s.QueueState, err = a.state(ctx, of); err == nil {
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
	} else {
		s.QueueState = QueueState{} // its counts are not whole
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

func (a *Admin) summariseRecords(ctx context.Context, of Queue, s *Summary) error {
	read, away := 0, false // away: the head is forgotten, or waits in a delay queue
	holds := func(c ConsumerState) bool { return c.Waiting.Messages > 0 }
	rests := s.Paused != nil || slices.ContainsFunc(s.Consumers, holds)
	for p, err := range a.readPages(ctx, of, setIndex, Entry{}, summaryPage, summaryMost+1) {
		if err != nil {
			return err
		}
		for _, text := range p.texts {
			if read++; read > summaryMost {
				s.Partial = true
				return nil
			}
			r, ok := parseRecord(of, text)
			if !ok || !isRetried(r) {
				continue
			}
			if s.Records != nil {
				s.Records = append(s.Records, r)
			}
			late := IsForgotten(r, s.Breaker, rests, s.Time)
			gone := late || r.OpenToken == "" && r.Due.After(s.Time) && r.Move.Top > 0
			s.Retrying++
			s.Forgotten += rules.Flag(late)
			if s.Head == nil || away && !gone || away == gone && r.Since().Before(s.Head.Since()) {
				head := r
				s.Head, away = &head, gone
			}
		}
	}
	return nil
}

// isRetried reports whether a message has failed, or runs again, and is not over. One that was only stopped, or reset,
// is not retried.
func isRetried(r Record) bool {
	return (!r.IsOver() || r.State == StateSkip) && (r.Counted() > 0 || r.OpenToken != "")
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
