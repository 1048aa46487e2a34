package counter

import (
	"context"
	"time"
)

// returnsTTL is how long the store keeps a note about returned messages.
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
