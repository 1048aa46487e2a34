package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/ops"
)

const lanesOfQueue = 20

// laneList are blocked lanes, longest blocked first.
type laneList struct {
	Lanes []ops.BlockedLane
	Of    int // that are blocked
}

// lanes returns the blocked lanes of a queue, or of its partitions: most of them at most, and how many are blocked.
func (c *Console) lanes(ctx context.Context, s ops.Status, most int) (l laneList, err error) {
	names := []string{s.Queue}
	for _, p := range s.Partitions {
		names = append(names, p.Queue)
	}
	l.Lanes, l.Of, err = ops.Lanes(ctx, c.store, c.opts.VHost, names, most)
	return l, err
}

// blockedLanes returns how many lanes of a queue are blocked. It fails while the partitions of the queue are not known,
// and waits for them as long as for any question to the broker.
func (c *Console) blockedLanes(ctx context.Context, queue string) (int, error) {
	a := c.statusOf(queue).get(ctx, time.Minute)
	if !a.Known && !errors.Is(a.Err, broker.ErrNotFound) {
		return 0, fmt.Errorf("its blocked lanes are not known: %w", cmp.Or(a.Err, context.DeadlineExceeded))
	}
	a.Value.Queue = queue
	l, err := c.lanes(ctx, a.Value.Status, 0)
	return l.Of, err
}
