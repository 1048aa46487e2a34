package counter

import (
	"context"
	"slices"

	"github.com/strikesmq/strikes/counter/rules"
)

// tombstonesOf reads the document tombstones.
func tombstonesOf(h map[string]string) Tombstones {
	return Tombstones{Count: number(h["count"]), Removed: number(h["removed"]), Since: millis(h["since"])}
}

// withExpired returns t with Expired: its count beyond the tombstones that exist and those that NoteRemoved noted.
func withExpired(t Tombstones, existing int64) Tombstones {
	t.Expired = max(t.Count-t.Removed-existing, 0)
	return t
}

// NoteRemoved notes that the dead letters of messages left their dead-letter queue: they were replayed or dropped. It
// ignores the VHost and Queue of the messages; ID and Generation must be those under which a message was counted.
// Record.Removed says so, List omits the records, and QueueState.Tombstones counts each once. NoteRemoved ignores a
// message without a tombstone. The tombstone stays in force. Messages are sent in batches. After an error each may or
// may not be noted; it is safe to repeat.
func (a *Admin) NoteRemoved(ctx context.Context, vhost, queue string, messages []Message) error {
	for some := range slices.Chunk(messages, maxBatch) {
		of := make([]Message, len(some))
		for i, m := range some {
			of[i] = Message{VHost: vhost, Queue: queue, ID: m.ID, Generation: m.Generation}
		}
		if _, err := a.changeAll(ctx, "note removed", Queue{vhost, queue}, of, rules.Remove); err != nil {
			return err
		}
	}
	return nil
}
