package counter

import (
	"context"
	"fmt"
	"time"
)

// Buried is how many messages of a queue the consumers were told to dead-letter, once for each: what is repeated because its
// reject was lost is not counted again within ten minutes. Not in it are messages without an id, and what the broker
// dead-letters by itself (an expired TTL, its own delivery limit, a queue that is full). It is forgotten once nothing was
// dead-lettered for twice the TTL of a record.
type Buried struct {
	Count int64
	Since time.Time // of the first; zero if there is none
}

// Buried returns the count of a queue.
func (c *Counter) Buried(ctx context.Context, vhost, queue string) (Buried, error) {
	if c.refuse != nil {
		return Buried{}, c.refuse
	}
	h, err := c.rdb.HGetAll(ctx, c.opts.keys(Message{VHost: vhost, Queue: queue}).dead).Result()
	if err != nil {
		return Buried{}, fmt.Errorf("counter: buried, queue %q: %w", queue, storeError(err))
	}
	return Buried{Count: number(h["count"]), Since: millis(h["since"])}, nil
}

// Now is the time by the clock of the store, against which the times of records are to be read.
func (c *Counter) Now(ctx context.Context) (time.Time, error) {
	if c.refuse != nil {
		return time.Time{}, c.refuse
	}
	now, err := c.rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("counter: time: %w", storeError(err))
	}
	return now.UTC(), nil
}
