package counter

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

// undecodableTTL is how long a note of NoteUndecodable is kept. Consumers meet such a message every few seconds.
const undecodableTTL = time.Minute

// NoteUndecodable notes for a minute that a message of the queue ended a session: the client cannot decode it, or the
// broker cannot convert it to AMQP 0.9.1. why is cut to MaxReason bytes. It is safe to repeat.
func (c *Counter) NoteUndecodable(ctx context.Context, vhost, queue, why string) error {
	why = printable.Cut(why, MaxReason)
	err := c.insist(ctx, Queue{vhost, queue}, nil, func(now time.Time, _ []Doc) (Change, error) {
		return Change{Docs: []Doc{{Name: docUndecodable, Data: why, Any: true, Expires: now.Add(undecodableTTL)}}}, nil
	})
	if err != nil {
		return fmt.Errorf("counter: note undecodable, queue %q: %w", queue, err)
	}
	return nil
}

// Undecodable returns the note of NoteUndecodable of the last minute; empty if there is none. Do not print it on a
// terminal unescaped.
func (a *Admin) Undecodable(ctx context.Context, vhost, queue string) (why string, err error) {
	_, docs, err := a.load(ctx, Queue{vhost, queue}, docUndecodable)
	if err == nil {
		why, err = docs[0].Data, docs[0].Err
	}
	if err != nil {
		return "", fmt.Errorf("counter: undecodable, queue %q: %w", queue, err)
	}
	return why, nil
}
