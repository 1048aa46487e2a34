package ops

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/internal/reason"
)

// reasonsScanned is how many dead letters are read for their reasons: the newest. With a database they take most of the
// time of a status.
const reasonsScanned = 3000

func (c *question) askStore(ctx context.Context, s *Status) (err error) {
	if c.StoreDown != nil {
		return c.StoreDown
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
	kept, err := c.Store.Summary(ctx, c.VHost, c.Queue, Arriving)
	if err == nil && len(s.Partitions) > 0 {
		s.Time = kept.Time
		err = c.askPartitioned(ctx, s, &kept)
	}
	if err != nil {
		return err
	}
	s.ofStore(kept)
	if kept.Ignored != nil {
		s.note("%v", kept.Ignored)
	}
	if !s.Unconsumed() && len(s.Processes) == 0 && len(s.Partitions) == 0 {
		s.note("the store knows no consumer of this queue: its consumers use Handle, a Settler or no strikes at all, or " +
			"another store or prefix (--store-url, --prefix)")
	}
	if kept.Partial {
		s.note("there are more than 10,000 records: only the newest were read")
	}
	if err := reading.Wait(); err != nil {
		return err
	}
	if reasons.Partial {
		s.note("there are more than %d dead letters: the reasons are those of the newest", reasonsScanned)
	}
	s.Dead.explain(reasons)
	return nil
}

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
