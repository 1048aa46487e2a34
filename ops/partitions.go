package ops

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
)

// Partition is one of the queues among which a partitioned queue is shared.
type Partition struct {
	Queue     string `json:"queue"`
	Missing   bool   `json:"missing,omitempty"` // the broker has no such queue
	Ready     int    `json:"ready"`
	Consumers int    `json:"consumers"`         // including those that wait
	Process   string `json:"process,omitempty"` // that it is dealt to; empty: none

	BlockedLanes int `json:"blocked_lanes,omitempty"`
}

// askPartitions asks for the partitions of a queue that does not exist itself.
func (c *Collector) askPartitions(ctx context.Context, s *Status) error {
	n, err := broker.PartitionsOf(ctx, c.conn, c.Queue)
	switch {
	case err != nil:
		return c.lost(err)
	case n == 0:
		return fmt.Errorf("%w: %q in virtual host %q", broker.ErrNotFound, c.Queue, c.VHost)
	}
	for i := range n {
		p := Partition{Queue: broker.Partition(c.Queue, i)}
		q, found, err := c.depth(ctx, p.Queue)
		if err != nil {
			return c.lost(err)
		}
		p.Missing, p.Ready, p.Consumers = !found, q.Messages, q.Consumers
		s.Partitions = append(s.Partitions, p)
	}
	return nil
}

// ofPartitions returns the sums of the partitions.
func (s *Status) ofPartitions() (sum amqp.Queue) {
	for _, p := range s.Partitions {
		sum.Messages, sum.Consumers = sum.Messages+p.Ready, sum.Consumers+p.Consumers
	}
	return sum
}

// dealt notes to which process each partition is dealt.
func (s *Status) dealt(d counter.Deal) {
	for _, m := range d.Members {
		for _, p := range m.Partitions {
			if p < len(s.Partitions) {
				s.Partitions[p].Process = m.Consumer
			}
		}
	}
}

// load returns the load of the queue, or that of its partitions together.
func (c *Collector) load(ctx context.Context, s *Status) (sum broker.Load, err error) {
	if len(s.Partitions) == 0 {
		return doctor.Measure(ctx, c.conn, c.api(c.Queue))
	}
	for _, p := range s.Partitions {
		if p.Missing {
			continue
		}
		one, err := doctor.Measure(ctx, c.conn, c.api(p.Queue))
		if err != nil {
			return broker.Load{}, err
		}
		sum.Unacked, sum.In, sum.Out, sum.Acked = sum.Unacked+one.Unacked, sum.In+one.In, sum.Out+one.Out, sum.Acked+one.Acked
		sum.DeadLettering += one.DeadLettering
	}
	return sum, nil
}

// blocked returns the blocked lanes of the queue. Each partition has its own.
func (c *Collector) blocked(ctx context.Context, s *Status) (sum counter.Blocked, err error) {
	if len(s.Partitions) == 0 {
		return c.Store.Blocked(ctx, c.VHost, c.Queue, Arriving)
	}
	for i, p := range s.Partitions {
		one, err := c.Store.Blocked(ctx, c.VHost, p.Queue, Arriving)
		if err != nil {
			return sum, err
		}
		s.Partitions[i].BlockedLanes = int(one.Lanes)
		sum.Lanes, sum.Count, sum.Recent = sum.Lanes+one.Lanes, sum.Count+one.Count, sum.Recent+one.Recent
	}
	return sum, nil
}
