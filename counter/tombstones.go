package counter

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// Buried is how many messages of a queue the consumers were told to dead-letter, once for each: what is repeated because its
// reject was lost is not counted again within ten minutes. Not in it are messages without an id, and what the broker
// dead-letters by itself (an expired TTL, its own delivery limit, a queue that is full). It is forgotten once nothing was
// dead-lettered, or taken, for twice the TTL of a record.
type Tombstones struct {
	Count   int64
	Removed int64     // of Count: AddTaken noted that the dead letter left its queue
	Since   time.Time // of the first; zero if there is none
}

// Buried returns the count of a queue.
func (a *Admin) Tombstones(ctx context.Context, vhost, queue string) (Tombstones, error) {
	if a.refuse != nil {
		return Tombstones{}, a.refuse
	}
	h, err := a.rdb.HGetAll(ctx, a.opts.keys(Message{VHost: vhost, Queue: queue}).dead).Result()
	if err != nil {
		return Tombstones{}, fmt.Errorf("counter: buried, queue %q: %w", queue, a.errorAt(Message{VHost: vhost, Queue: queue}, err))
	}
	return Tombstones{Count: number(h["count"]), Removed: number(h["taken"]), Since: millis(h["since"])}, nil
}

// AddTaken notes that the dead letters of messages left their dead-letter queue: they were replayed or dropped. VHost and
// Queue of the messages are not read; ID and Life must be those under which the message was counted. Their records say so
// (Record.Removed), List omits them, and Buried counts each once. AddTaken ignores a message without a tombstone. The tombstone
// stays in force. Messages are sent in batches. An error leaves undecided which of them are noted; AddTaken may be repeated.
func (a *Admin) NoteRemoved(ctx context.Context, vhost, queue string, dead []Message) error {
	var sending errgroup.Group
	sending.SetLimit(maxBatch)
	for _, m := range dead {
		sending.Go(func() error {
			_, err := a.step(ctx, stepTaken, Attempt{Message: Message{VHost: vhost, Queue: queue, ID: m.ID, Generation: m.Generation}, Token: byOperator}, 0)
			return err
		})
	}
	return sending.Wait()
}

// Now is the time by the clock of the store, against which the times of records are to be read.
func (a *Admin) Now(ctx context.Context) (time.Time, error) {
	if a.refuse != nil {
		return time.Time{}, a.refuse
	}
	now, err := a.rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("counter: time: %w", a.storeError(err))
	}
	return now.UTC(), nil
}
