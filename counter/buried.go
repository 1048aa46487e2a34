package counter

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Buried is how many messages of a queue the consumers were told to dead-letter, once for each: what is repeated because its
// reject was lost is not counted again within ten minutes. Not in it are messages without an id, and what the broker
// dead-letters by itself (an expired TTL, its own delivery limit, a queue that is full). It is forgotten once nothing was
// dead-lettered, or taken, for twice the TTL of a record.
type Buried struct {
	Count int64
	Taken int64     // how many AddTaken was told of; more than Count if there were copies
	Since time.Time // of the first; zero if there is none
}

//go:embed scripts/taken.lua
var takenLua string

var addTaken = redis.NewScript(takenLua)

// Buried returns the count of a queue.
func (c *Counter) Buried(ctx context.Context, vhost, queue string) (Buried, error) {
	if c.refuse != nil {
		return Buried{}, c.refuse
	}
	h, err := c.rdb.HGetAll(ctx, c.opts.keys(Message{VHost: vhost, Queue: queue}).dead).Result()
	if err != nil {
		return Buried{}, fmt.Errorf("counter: buried, queue %q: %w", queue, c.errorAt(Message{VHost: vhost, Queue: queue}, err))
	}
	return Buried{Count: number(h["count"]), Taken: number(h["taken"]), Since: millis(h["since"])}, nil
}

// AddTaken notes that n messages, 1 at least, that Buried counts were taken out of the dead-letter queue since: replayed,
// dropped. One that dies again is counted again, and may be taken again. Where nothing is counted any more nothing is noted.
// An error leaves undecided whether it is noted; repeated, it may be twice.
func (c *Counter) AddTaken(ctx context.Context, vhost, queue string, n int) error {
	if c.refuse != nil {
		return c.refuse
	}
	if err := checkTaken(queue, n); err != nil {
		return err
	}
	dead := c.opts.keys(Message{VHost: vhost, Queue: queue}).dead
	if err := addTaken.Run(ctx, c.rdb, []string{dead}, c.opts.TTL.Milliseconds(), n).Err(); err != nil {
		return fmt.Errorf("counter: add taken, queue %q: %w", queue, c.errorAt(Message{VHost: vhost, Queue: queue}, err))
	}
	return nil
}

func checkTaken(queue string, n int) error {
	if n < 1 {
		return fmt.Errorf("counter: add taken, queue %q: n is %d: it must be 1 at least", queue, n)
	}
	return nil
}

// Now is the time by the clock of the store, against which the times of records are to be read.
func (c *Counter) Now(ctx context.Context) (time.Time, error) {
	if c.refuse != nil {
		return time.Time{}, c.refuse
	}
	now, err := c.rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("counter: time: %w", c.storeError(err))
	}
	return now.UTC(), nil
}
