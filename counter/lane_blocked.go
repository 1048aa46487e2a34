package counter

import (
	"context"
	"fmt"
	"time"
)

// Blocked are the dead letters of blocked lanes that were dead-lettered without an attempt, behind another of their
// lane. They have no tombstone.
type Blocked struct {
	Lanes  int64 // that are blocked
	Count  int64
	Recent int64 // of Count: so late that they may be on their way
}

// Blocked counts the dead letters of a queue that are behind others in blocked lanes. It costs the same however many
// they are. Those that were dead-lettered less than recent ago, a minute at most, count as Recent.
func (a *Admin) Blocked(ctx context.Context, vhost, queue string, recent time.Duration) (Blocked, error) {
	if a.refuse != nil {
		return Blocked{}, a.refuse
	}
	b, err := a.lanes.letters(ctx, Queue{vhost, queue}, recent)
	if err != nil {
		return Blocked{}, fmt.Errorf("counter: in blocked lanes, queue %q: %w", queue, err)
	}
	return b, nil
}
