package counter

import (
	"context"
	"time"
)

// returnsTTL is how long the store keeps a note about returned messages, or about a replay.
const returnsTTL = 90 * 24 * time.Hour

// NoteReturns notes the highest number of times that a message of a quorum queue was returned to it; 0 forgets the
// number. The store keeps it for 90 days. Package deadletter refuses to read a queue once a message is near its
// delivery limit, and the refusal must not cost the delivery that would show this.
func (a *Admin) NoteReturns(ctx context.Context, vhost, queue string, highest int64) error {
	text := ""
	if highest > 0 {
		text = decimal(highest)
	}
	err := a.note(ctx, Queue{vhost, queue}, docReturns, text, returnsTTL)
	return failed("note returns", queue, err)
}

// Returns returns the number that NoteReturns noted last, or 0 if there is none.
func (a *Admin) Returns(ctx context.Context, vhost, queue string) (int64, error) {
	_, text, err := a.text(ctx, Queue{vhost, queue}, docReturns)
	return number(text), failed("returns", queue, err)
}

// NoteReplay notes that a replay of a dead-letter queue begins. If not begins, it removes the note: no message is both
// published and in the dead-letter queue. The store keeps a note for 90 days.
func (a *Admin) NoteReplay(ctx context.Context, vhost, queue string, begins bool) error {
	err := a.insist(ctx, Queue{vhost, queue}, nil, func(now time.Time, _ []Doc) (Change, error) {
		d := Doc{Name: docReplay, Any: true, Expires: now.Add(returnsTTL)}
		if begins {
			d.Data = decimal(now.UnixMilli())
		}
		return Change{Docs: []Doc{d}}, nil
	})
	return failed("note replay", queue, err)
}

// Replaying returns when the last replay of a dead-letter queue began, if that still runs or was cut off; else zero.
func (a *Admin) Replaying(ctx context.Context, vhost, queue string) (time.Time, error) {
	_, text, err := a.text(ctx, Queue{vhost, queue}, docReplay)
	return millis(text), failed("replay", queue, err)
}
