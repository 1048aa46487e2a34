package ops

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/internal/reason"
)

const (
	// maxScanned is how many records are read of messages that are retried: those that were written last.
	maxScanned = 10_000
	// reasonsScanned is how many dead letters are read for their reasons: the newest. With a database they take most of
	// the time of a status.
	reasonsScanned = 3000
	// frontScanned is the number of records that the store lists in one round trip.
	frontScanned = 200
)

func (c *question) askStore(ctx context.Context, s *Status) (err error) {
	if c.StoreDown != nil {
		return c.StoreDown
	}
	state, err := c.Store.State(ctx, c.VHost, c.Queue)
	if err != nil {
		return err
	}
	if state.Ignored != nil {
		s.note("%v", state.Ignored)
	}
	s.Time, s.Undecodable, s.breaker = state.Time, state.Undecodable, state.Breaker
	s.Breaker = breakerOf(state.Breaker, state.Time)
	s.Waiting, s.Processes = waitingBy(state.Consumers), seen(state.Consumers, state.Time)
	s.pausedBy(state.Paused)
	if s.Consumers > 0 && len(s.Processes) == 0 && len(s.Partitions) == 0 {
		s.note("the store knows no consumer of this queue: its consumers use Handle, a Settler or no strikes at all, or " +
			"another store or prefix (--store-url, --prefix)")
	}
	queue := &Queue{Store: c.Store, VHost: c.VHost, Name: c.Queue}
	var reasons Groups
	var reading panics.Group // of the reasons, which take longest
	defer func() { _ = reading.Wait() }()
	if !c.NoReasons {
		reading.Go(func() (err error) {
			reasons, err = queue.Groups(ctx, DeadQuery{Limit: reasonsScanned})
			return err
		})
	}
	if len(s.Partitions) > 0 {
		d, err := c.Store.Dealt(ctx, c.VHost, c.Queue)
		if err != nil {
			return err
		}
		s.dealt(d)
	}
	var denied *counter.StoreError
	blocked, err := c.blocked(ctx, s)
	switch {
	case errors.As(err, &denied) && denied.Fault == counter.FaultDenied:
		s.Dead.blockedUnseen = true
		s.note("the dead letters in blocked lanes could not be counted, so others may be missing unseen: %v", err)
	case err != nil:
		return err
	}
	records, err := c.records(ctx, s)
	if err != nil {
		return err
	}
	if err := reading.Wait(); err != nil {
		return err
	}
	if reasons.Partial {
		s.note("there are more than %d dead letters: the reasons are those of the newest", reasonsScanned)
	}
	if state.Override != nil {
		s.Limit = new(queue.LimitOf(*state.Override))
	}
	s.judge(state, records, blocked, reasons)
	return nil
}

func (s *Status) pausedBy(p *counter.Pause) {
	if p == nil {
		return
	}
	s.Paused = &p.Note
	if h := p.Holding; h != nil {
		s.Holding = &Holding{ID: h.ID, Cause: h.Cause, Since: p.At}
	}
}

// records reads the records that were written last. A record that is written while the others are read moves to the
// front and is missed there, so the front is read again. A message may die meanwhile, so the dead letters are read
// last.
func (c *question) records(ctx context.Context, s *Status) (map[counter.Message]counter.Record, error) {
	all := map[counter.Message]counter.Record{}
	for _, most := range []int{maxScanned, frontScanned} {
		n := 0
		for r, err := range c.Store.Live(ctx, c.VHost, c.Queue) {
			if err != nil {
				return nil, err
			}
			all[r.Message] = r
			if n++; n == most {
				break
			}
		}
		if n == maxScanned {
			s.note("there are more than %d records: only the newest were read", maxScanned)
		}
		if n <= frontScanned {
			break
		}
	}
	n, old := 0, 0 // of the dead letters that may be on their way
	for d, err := range c.Store.Dead(ctx, c.VHost, c.Queue, "") {
		if err != nil {
			return nil, err
		}
		all[d.Message] = d.Record
		if s.Time.Sub(d.LastTime) > Arriving {
			old++
		}
		if n++; n == maxScanned || old == renewed {
			break
		}
	}
	return all, nil
}

// renewed is how many old tombstones may be before a recent one: the tombstone of a message that cannot leave its
// queue is renewed.
const renewed = 10

// WaitingMessages are messages that processes hold because the attempts at them are not counted. They may have no
// records.
type WaitingMessages struct {
	Messages  int       `json:"messages"`
	Since     time.Time `json:"since"`               // of the one that waits for longest
	Why       string    `json:"why"`                 // of the newest attempt
	Consumers []string  `json:"consumers,omitempty"` // the longest waiting first; empty: all of the queue
}

// Holding is an exhausted message that holds its queue, which is paused for it.
type Holding struct {
	ID    string        `json:"id"`
	Cause counter.Cause `json:"cause"`
	Since time.Time     `json:"since"`
}

// waitingBy returns the messages that processes hold, the longest waiting first. It puts those with one reason
// together, because in an outage all have the same reason.
func waitingBy(all []counter.ConsumerState) (out []WaitingMessages) {
	all = slices.DeleteFunc(slices.Clone(all), func(s counter.ConsumerState) bool { return s.Waiting.Messages == 0 })
	since := func(s counter.ConsumerState) time.Time { return s.Seen.Add(-s.Waiting.For) }
	slices.SortFunc(all, func(a, b counter.ConsumerState) int {
		return cmp.Or(since(a).Compare(since(b)), cmp.Compare(a.Consumer, b.Consumer))
	})
	of := map[string]int{}
	for _, s := range all {
		key := reason.Normalise(s.Waiting.Why)
		i, known := of[key]
		if !known {
			i, of[key] = len(out), len(out)
			out = append(out, WaitingMessages{Since: since(s), Why: s.Waiting.Why})
		}
		out[i].Messages += s.Waiting.Messages
		out[i].Consumers = append(out[i].Consumers, s.Consumer)
	}
	return out
}
