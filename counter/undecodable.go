package counter

import (
	"context"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

// undecodableTTL is how long a note of NoteUndecodable is kept. Consumers meet such a message every few seconds.
const undecodableTTL = time.Minute

// NoteUndecodable notes for a minute that a message of the queue ended a session: the client cannot decode it, or the
// broker cannot convert it to AMQP 0.9.1. why is cut to MaxReason bytes. It is safe to repeat.
func (c *Counter) NoteUndecodable(ctx context.Context, vhost, queue, why string) error {
	err := c.note(ctx, Queue{vhost, queue}, docUndecodable, printable.Cut(why, MaxReason), undecodableTTL)
	return failed("note undecodable", queue, err)
}
