package counter

import (
	"context"
	"fmt"

	"github.com/strikesmq/strikes/internal/panics"
)

// Tombstones returns the counts of a queue.
func (a *Admin) Tombstones(ctx context.Context, vhost, queue string) (Tombstones, error) {
	if a.refuse != nil {
		return Tombstones{}, a.refuse
	}
	of := Message{VHost: vhost, Queue: queue}
	h, err := a.rdb.HGetAll(ctx, a.opts.keys(of).tombstones).Result()
	if err != nil {
		return Tombstones{}, fmt.Errorf("counter: tombstones, queue %q: %w", queue, a.errorAt(of, err))
	}
	// after the counts: a message that dies meanwhile is not among the expired
	existing, err := a.CountDead(ctx, vhost, queue)
	return tombstonesOf(h, int64(existing)), err
}

func tombstonesOf(h map[string]string, existing int64) Tombstones {
	return withExpired(Tombstones{Count: number(h["count"]), Removed: number(h["removed"]), Since: millis(h["since"])},
		existing)
}

// withExpired returns t with Expired: its count beyond the tombstones that exist and those that NoteRemoved noted.
func withExpired(t Tombstones, existing int64) Tombstones {
	t.Expired = max(t.Count-t.Removed-existing, 0)
	return t
}

// NoteRemoved notes that the dead letters of messages left their dead-letter queue: they were replayed or dropped. It
// ignores the VHost and Queue of the messages; ID and Generation must be those under which a message was counted.
// Record.Removed says so, List omits the records, and Tombstones counts each once. NoteRemoved ignores a message
// without a tombstone. The tombstone stays in force. Messages are sent in batches. After an error each may or may not
// be noted; it is safe to repeat.
func (a *Admin) NoteRemoved(ctx context.Context, vhost, queue string, messages []Message) error {
	var sending panics.Group
	sending.SetLimit(maxBatch)
	for _, m := range messages {
		sending.Go(func() error {
			_, err := a.step(ctx, stepRemoved, removedAttempt(vhost, queue, m), 0)
			return err
		})
	}
	return sending.Wait()
}

func removedAttempt(vhost, queue string, m Message) Attempt {
	m.VHost, m.Queue = vhost, queue
	return Attempt{Message: m, Token: byOperator}
}
