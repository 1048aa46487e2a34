package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
)

// Partition is one of the queues among which a partitioned queue is shared.
type Partition struct {
	Queue     string `json:"queue"`
	Missing   bool   `json:"missing,omitempty"` // the broker has no such queue
	Away      bool   `json:"away,omitempty"`    // its node is down
	Ready     int    `json:"ready"`
	Unacked   *int   `json:"unacked,omitempty"` // by the management API; nil: it did not say
	Consumers int    `json:"consumers"`         // including those that wait
	Process   string `json:"process,omitempty"` // that it is dealt to; empty: none that lives

	BlockedLanes int       `json:"blocked_lanes,omitempty"`
	BlockedSince time.Time `json:"blocked_since,omitzero"` // the lane that is blocked for longest
}

// ErrPartition is wrapped by Collect for a queue that is a partition of another one.
var ErrPartition = errors.New("is a partition")

// askPartitions asks for the partitions of a queue that does not exist itself.
func (c *question) askPartitions(ctx context.Context, s *Status) error {
	n, err := broker.PartitionsOf(ctx, c.conn, c.Queue)
	switch {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("%w: %q in virtual host %q", broker.ErrNotFound, c.Queue, c.VHost)
	}
	for i := range n {
		p := Partition{Queue: broker.Partition(c.Queue, i)}
		q, found, err := c.depth(ctx, p.Queue)
		if err != nil && !broker.IsAway(err) {
			return err
		}
		p.Away = broker.IsAway(err)
		p.Missing, p.Ready, p.Consumers = !found && !p.Away, q.Messages, q.Consumers
		s.Partitions = append(s.Partitions, p)
	}
	return nil
}

// goneAfter is the time without a read of the deal after which a process counts as dead or cut off. The deal keeps it
// until another process reads.
const goneAfter = 30 * time.Second

// dealt notes to which process each partition is dealt.
func (s *Status) dealt(d counter.Deal) {
	for _, m := range d.Members {
		for _, p := range m.Partitions {
			if p < len(s.Partitions) && s.Time.Sub(m.Read) <= goneAfter {
				s.Partitions[p].Process = m.Consumer
			}
		}
	}
}

// askPartitioned adds the process and the blocked lanes of each partition.
func (c *question) askPartitioned(ctx context.Context, s *Status, kept *counter.Summary) error {
	d, err := c.Store.Dealt(ctx, c.VHost, c.Queue)
	if err != nil {
		return err
	}
	s.dealt(d)
	lanes, err := c.Store.Summaries(ctx, c.VHost, broker.Partitions(c.Queue, len(s.Partitions)), Arriving)
	if err != nil {
		return err
	}
	addLanes(s.Partitions, kept, lanes)
	for i, p := range s.Partitions {
		if p.BlockedLanes == 0 {
			continue
		}
		oldest, _, err := c.Store.Lanes(ctx, c.VHost, p.Queue, 1)
		if err != nil {
			return err
		}
		for _, l := range oldest { // it may be released meanwhile
			s.Partitions[i].BlockedSince = l.Since
		}
	}
	return kept.Err
}

// load returns the load of the queue, or that of its partitions together. It counts the consumers that wait, too.
func (c *question) load(ctx context.Context, s *Status) (sum broker.Load, err error) {
	if len(s.Partitions) == 0 {
		sum, err = doctor.Measure(ctx, c.conn, c.API.For(c.Queue))
		*s.Consumers = withWaiting(*s.Consumers, sum.Consumers)
		return sum, err
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		if p.Missing || p.Away {
			continue
		}
		one, err := doctor.Measure(ctx, c.conn, c.API.For(p.Queue))
		if err != nil {
			return broker.Load{}, err
		}
		waiting := withWaiting(p.Consumers, one.Consumers) - p.Consumers
		p.Unacked, p.Consumers, *s.Consumers = &one.Unacked, p.Consumers+waiting, *s.Consumers+waiting
		sum = sum.With(one)
	}
	return sum, nil
}

// withWaiting returns the consumers of a queue. Over AMQP a quorum queue counts its single active consumer, and not
// those that wait (4.3.6). The management API counts them, but is late: it may know some of a queue without any.
func withWaiting(byAMQP, byAPI int) int {
	if byAMQP == 0 {
		return 0
	}
	return max(byAMQP, byAPI)
}

// Unattended is how many messages wait in the queue, or in partitions of it, without a consumer.
func (s Status) Unattended() (n int) {
	switch {
	case s.Ready == nil || s.Consumers == nil || s.DeadLettersOf != "":
		return 0
	case len(s.Partitions) == 0 && *s.Consumers == 0:
		return *s.Ready
	}
	for _, p := range s.Partitions {
		if p.Consumers == 0 {
			n += p.Ready
		}
	}
	return n
}

// addLanes adds the blocked lanes of the partitions, which each have their own.
func addLanes(partitions []Partition, kept *counter.Summary, of []counter.Summary) {
	for i, p := range of {
		partitions[i].BlockedLanes = p.BlockedLanes
		kept.BlockedLanes, kept.Err = kept.BlockedLanes+p.BlockedLanes, cmp.Or(kept.Err, p.Err)
		kept.Blocked.Count, kept.Blocked.Recent = kept.Blocked.Count+p.Blocked.Count, kept.Blocked.Recent+p.Blocked.Recent
	}
}

// BlockedLane is a blocked lane of a queue, or of a partition of it.
type BlockedLane struct {
	counter.BlockedLane
	Queue string
}

// Lanes returns the blocked lanes of queues, longest blocked first: most of them at most, and how many are blocked.
func Lanes(ctx context.Context, store *counter.Admin, vhost string, queues []string, most int) (all []BlockedLane,
	blocked int, err error) {
	for _, queue := range queues {
		some, n, err := store.Lanes(ctx, vhost, queue, most)
		if err != nil {
			return nil, 0, err
		}
		blocked += n
		for _, l := range some {
			all = append(all, BlockedLane{l, queue})
		}
	}
	slices.SortStableFunc(all, func(a, b BlockedLane) int { return a.Since.Compare(b.Since) })
	return all[:min(most, len(all))], blocked, nil
}

// LaneParts lists the changes of a lane by a verb, each in a few words.
func LaneParts(verb string, r deadletter.LaneResult) (parts []string) {
	none := r.Replayed == 0 && r.Dropped == 0
	if r.Replayed > 0 || none && verb != VerbDrop {
		parts = append(parts, fmt.Sprintf("%d replayed", r.Replayed))
	}
	if r.Dropped > 0 || none && verb == VerbDrop {
		parts = append(parts, fmt.Sprintf("%d dropped", r.Dropped))
	}
	if r.Missing > 0 {
		parts = append(parts, fmt.Sprintf("%d of them missing, so in no file", r.Missing))
	}
	if r.Doubles > 0 {
		parts = append(parts, printable.Plural(r.Doubles, "duplicate")+" taken off")
	}
	if n := len(r.Undecided); n > 0 {
		parts = append(parts, printable.Plural(n, "message")+" in the file, but maybe still in the dead-letter queue")
	}
	return parts
}
