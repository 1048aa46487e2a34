package main

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/poll"
)

// settled follows the history for what is settled: handled, or about to be dead-lettered. A process may die between
// settling a delivery and writing that down, so its settlement is not what tells; that it was lost, the queue tells.
type settled struct {
	tail      *audit.Tail
	confirmed map[string]bool
	done      map[string]bool
	dead      map[string]bool
}

func newSettled(history string) *settled {
	return &settled{tail: audit.NewTail(history), confirmed: map[string]bool{}, done: map[string]bool{},
		dead: map[string]bool{}}
}

func (s *settled) update() error {
	events, err := s.tail.Next()
	if err != nil {
		return err
	}
	for _, e := range events {
		switch {
		case e.Kind == audit.Published && e.Outcome == audit.Confirmed:
			s.confirmed[e.ID] = true
		case e.Kind == audit.Stepped && e.Code == "exhausted", e.Kind == audit.Decided && e.Decision == "dead-letter":
			s.dead[e.ID], s.done[e.ID] = true, true
		case e.Kind == audit.Ended && e.Outcome == audit.OK:
			s.done[e.ID] = true
		}
	}
	return nil
}

func (s *settled) open() (n int) {
	for id := range s.confirmed {
		if !s.done[id] {
			n++
		}
	}
	return n
}

// drain waits until every message is settled and the queue is empty, and stops the fleet to see that nothing it still
// held comes back; else it starts it again.
func (k *soak) drain(ctx context.Context) error {
	began := time.Now()
	k.log.Write(audit.Event{Kind: audit.Quiet})
	within := k.cfg.drainWithin()
	for {
		err := poll.Until(ctx, within-time.Since(began), "the queue to drain", k.drained)
		stopped := k.fleet.stop()
		if err == nil {
			err = stopped
		}
		if err != nil {
			k.log.Write(audit.Event{Kind: audit.Undrained, Err: err.Error()})
			return ctx.Err()
		}
		n, err := k.broker.depth(queue)
		if err == nil && n == 0 {
			k.log.Write(audit.Event{Kind: audit.Drained})
			return nil
		}
		k.say("%d messages came back when the consumers stopped", n)
		k.fleet.start(ctx)
	}
}

func (k *soak) drained() error {
	if err := k.settled.update(); err != nil {
		return err
	}
	n, err := k.broker.depth(queue)
	if err != nil {
		return err
	}
	if open := k.settled.open(); n > 0 || open > 0 {
		return fmt.Errorf("%d messages are ready, %d confirmed ones not settled", n, open)
	}
	return nil
}
