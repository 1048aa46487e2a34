package counter

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/internal/panics"
)

// Tombstones counts the messages of a queue that consumers were told to dead-letter, each once: a repetition after a lost reject
// is not counted within ten minutes. Messages without an id are not counted, nor those that the broker dead-letters by itself
// (an expired TTL, its own delivery limit, a full queue). The store forgets the counts when no tombstone was written or removed
// for twice the TTL of a record.
type Tombstones struct {
	Count   int64     // without those that Reset cleared
	Removed int64     // of Count: NoteRemoved noted that the dead letter left its queue
	Expired int64     // of Count, not of Removed: the store has no tombstone any more, or only for an eighth of its TTL
	Since   time.Time // of the first; zero if there is none
}

// expired returns t with what it counts beyond the tombstones that exist, without those that NoteRemoved noted.
func (t Tombstones) expired(existing int64) Tombstones {
	t.Expired = max(t.Count-t.Removed-existing, 0)
	return t
}

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
	existing, err := a.CountDead(ctx, vhost, queue) // after the counts: a message that dies meanwhile is not among the expired
	return tombstonesOf(h, int64(existing)), err
}

func tombstonesOf(h map[string]string, existing int64) Tombstones {
	t := Tombstones{Count: number(h["count"]), Removed: number(h["removed"]), Since: millis(h["since"])}
	return t.expired(existing)
}

// NoteRemoved notes that the dead letters of messages left their dead-letter queue: they were replayed or dropped. It ignores
// the VHost and Queue of the messages; ID and Generation must be those under which a message was counted. Record.Removed says
// so, List omits the records, and Tombstones counts each once. NoteRemoved ignores a message without a tombstone. The tombstone
// stays in force. Messages are sent in batches. After an error each may or may not be noted; it is safe to repeat.
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
