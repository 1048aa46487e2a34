package counter

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/panics"
)

const (
	// summaryPage is how many records one script reads, which occupies the store for about 2 ms.
	summaryPage = 1000
	// summaryMost is how many records of a queue are read: those that were written last.
	summaryMost = 10_000
	// summaryBatch is how many queues share a round trip to Redis.
	summaryBatch = 64
	// summaryReaders is how many queues are read from a Store at the same time. Each takes several round trips.
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

// Summary is the state of a queue in the store. Do not print its strings on a terminal unescaped.
type Summary struct {
	Queue string
	Time  time.Time // by the store's clock

	Retrying int // messages that failed, or run again, and are not dead-lettered
	// of Retrying, see IsForgotten: there is no consumer, or the message left the queue otherwise
	Forgotten int
	// of Retrying, the one that began first, without TTL; one that is forgotten, or waits in a delay queue, only if all
	// are; nil: there is none
	Head   *Record
	Recent int // messages dead-lettered so recently that they may be on their way

	Tombstones  Tombstones
	Override    *Override // nil: none, or one that consumers ignore
	Undecodable string    // the note of NoteUndecodable, of the last minute
	Paused      *Pause    // nil: the queue is not paused
	Waiting     Waiting   // of all processes: their messages together, and the report of the message held for longest

	Breaker Breaker

	BlockedLanes int     // lanes that are blocked
	Blocked      Blocked // the dead letters in them that had no attempt

	Partial bool  // the queue has more records than were read
	Err     error // why nothing is known of this queue, such as ErrForeign; nil: it is
}

//go:embed scripts/summary.lua
var summaryLua string

var summary = redis.NewScript(summaryLua)

// Summaries returns a Summary of each queue, in their order. On Redis 64 queues share a round trip; on another Store 8
// queues are read at a time. It reads at most the 10,000 records of a queue that were written last. Recent is how long
// a dead letter may be on its way.
func (a *Admin) Summaries(ctx context.Context, vhost string, queues []string, recent time.Duration) ([]Summary, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	out := make([]Summary, len(queues))
	var sending panics.Group
	batch, most := summaryBatch, maxFlushes
	if a.rdb == nil {
		batch, most = 1, summaryReaders
	}
	sending.SetLimit(most)
	for from := 0; from < len(queues); from += batch {
		part := out[from:min(from+batch, len(queues))]
		for i := range part {
			part[i].Queue = queues[from+i]
		}
		sending.Go(func() error {
			if a.rdb == nil {
				return a.summariseStored(ctx, Queue{vhost, part[0].Queue}, &part[0], recent)
			}
			return a.summarise(ctx, vhost, part, recent)
		})
	}
	if err := sending.Wait(); err != nil {
		return nil, fmt.Errorf("counter: summaries: %w", err)
	}
	return out, nil
}

// summarise asks for the first page of each queue, and for the next one of those that have more.
func (a *Admin) summarise(ctx context.Context, vhost string, queues []Summary, recent time.Duration) error {
	open := make([]*Summary, len(queues))
	for i := range queues {
		open[i] = &queues[i]
	}
	for skip := 0; len(open) > 0 && skip < summaryMost; skip += summaryPage {
		args := []any{skip, summaryPage, recent.Milliseconds(), ForgottenAfter.Milliseconds()}
		replies := a.summaryReplies(ctx, vhost, open, args)
		var unread []*Summary
		for i, s := range open {
			more, err := s.add(vhost, replies[i])
			switch {
			case err == nil && more:
				unread = append(unread, s)
			case err != nil && isForeign(err):
				s.Err = fmt.Errorf("counter: summary, queue %q: %w", s.Queue, a.errorAt(Message{VHost: vhost, Queue: s.Queue}, err))
			case err != nil:
				return a.storeError(err)
			}
			s.Partial = more
		}
		open = unread
	}
	return a.countBlocked(ctx, vhost, queues, recent)
}

// countBlocked counts the dead letters in blocked lanes, where there are any.
func (a *Admin) countBlocked(ctx context.Context, vhost string, queues []Summary, recent time.Duration) (err error) {
	for i := range queues {
		s := &queues[i]
		if s.BlockedLanes == 0 || s.Err != nil {
			continue
		}
		s.Blocked, err = a.Blocked(ctx, vhost, s.Queue, recent)
		switch {
		case errors.Is(err, ErrForeign):
			s.Err = err
		case err != nil:
			return err
		}
	}
	return nil
}

// summaryReplies runs the script for each queue. A server that does not know the script gets its source.
func (a *Admin) summaryReplies(ctx context.Context, vhost string, of []*Summary, args []any) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(of))
	send := func(run func(p redis.Pipeliner, keys []string) *redis.Cmd, wanted func(*redis.Cmd) bool) {
		_, _ = a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
			for i, s := range of {
				if wanted(cmds[i]) {
					cmds[i] = run(p, a.summaryKeys(vhost, s.Queue))
				}
			}
			return nil
		})
	}
	send(func(p redis.Pipeliner, keys []string) *redis.Cmd { return summary.EvalSha(ctx, p, keys, args...) },
		func(*redis.Cmd) bool { return true })
	unknown := func(c *redis.Cmd) bool { return redis.HasErrorPrefix(c.Err(), "NOSCRIPT") }
	for _, c := range cmds {
		if unknown(c) {
			send(func(p redis.Pipeliner, keys []string) *redis.Cmd { return summary.Eval(ctx, p, keys, args...) }, unknown)
			break
		}
	}
	return cmds
}

func (a *Admin) summaryKeys(vhost, queue string) []string {
	q := a.opts.queueKey(vhost, queue)
	return []string{q + setIndex, q + docLimit, q + docTombstones, q + docUndecodable, q + setDead, q + docPause,
		q + setConsumers, q + setLanes}
}

// add adds the reply for one page, and reports whether there are more.
func (s *Summary) add(vhost string, cmd *redis.Cmd) (more bool, err error) {
	reply, err := cmd.Slice()
	if err != nil {
		return false, err
	}
	if len(reply) != 14 {
		return false, fmt.Errorf("%w: got %d values, want 14", ErrReply, len(reply))
	}
	if err, failed := reply[11].(error); failed {
		return false, err
	}
	var n [5]int64
	for i := range n {
		n[i], _ = reply[i].(int64)
	}
	var hashes [3]map[string]string
	for i := range hashes {
		if hashes[i], err = hashOf(reply[6+i]); err != nil {
			return false, err
		}
	}
	if err, failed := reply[9].(error); failed {
		return false, err
	}
	lanes, _ := reply[11].(int64)
	existing, _ := reply[12].(int64)
	s.Time, s.BlockedLanes = time.UnixMilli(n[0]).UTC(), int(lanes)
	if text, ok := reply[5].(string); ok {
		head := parseRecord(Message{VHost: vhost, Queue: s.Queue}, text, 0)
		s.lead(&head, n[2] == n[3])
	}
	s.Retrying, s.Forgotten, s.Recent = s.Retrying+int(n[2]), s.Forgotten+int(n[3]), s.Recent+int(n[4])
	s.Tombstones = withExpired(tombstonesOf(hashes[0]), existing)
	s.Undecodable, _ = reply[9].(string)
	s.Override, _ = overrideOf(hashes[1]) // consumers ignore one that cannot be read
	if h := hashes[2]; h["paused"] == "1" {
		s.Paused = &Pause{parseNote(h), holdingOf(h, Queue{vhost, s.Queue})}
	}
	s.Waiting = Waiting{}
	for _, report := range texts(reply[10]) {
		s.Waiting = s.Waiting.together(parseWaiting(report))
	}
	text, _ := reply[13].(string)
	s.Breaker, _ = rules.DecodeBreaker(text)
	return n[1] == 1, nil
}

// lead makes a record the head if it is before the one of the pages so far.
func (s *Summary) lead(r *Record, forgotten bool) {
	before := s.Head == nil
	if !before && forgotten == (s.Retrying == s.Forgotten) {
		before = r.Since().Before(s.Head.Since())
	} else if !before {
		before = !forgotten
	}
	if before {
		s.Head = r
	}
}

// hashOf reads the reply to HGETALL within a script's.
func hashOf(reply any) (map[string]string, error) {
	if err, failed := reply.(error); failed {
		return nil, err
	}
	list, _ := reply.([]any)
	return fieldsOf(list), nil
}

// texts are the texts of a list; empty where it has another value.
func texts(reply any) []string {
	list, _ := reply.([]any)
	out := make([]string, 0, len(list))
	for _, v := range list {
		text, _ := v.(string)
		out = append(out, text)
	}
	return out
}
