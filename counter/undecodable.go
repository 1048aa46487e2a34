package counter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/printable"
)

// undecodableTTL is how long a note of NoteUndecodable is kept. Consumers meet such a message every few seconds.
const undecodableTTL = time.Minute

// NoteUndecodable notes for a minute that a message of the queue ended a session: the client cannot decode it, or the
// broker cannot convert it to AMQP 0.9.1. why is cut to MaxReason bytes. It is safe to repeat.
func (c *Counter) NoteUndecodable(ctx context.Context, vhost, queue, why string) error {
	if c.refuse != nil {
		return c.refuse
	}
	if err := c.rdb.Set(ctx, c.undecodableKey(vhost, queue), printable.Cut(why, MaxReason),
		undecodableTTL).Err(); err != nil {
		return fmt.Errorf("counter: note undecodable, queue %q: %w", queue, c.storeError(err))
	}
	return nil
}

// Undecodable returns the note of NoteUndecodable of the last minute; empty if there is none. Do not print it on a
// terminal unescaped.
func (a *Admin) Undecodable(ctx context.Context, vhost, queue string) (why string, err error) {
	if a.refuse != nil {
		return "", a.refuse
	}
	why, err = a.rdb.Get(ctx, a.undecodableKey(vhost, queue)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("counter: undecodable, queue %q: %w", queue, a.storeError(err))
	}
	return why, nil
}

func (c *client) undecodableKey(vhost, queue string) string {
	return c.opts.queueKey(vhost, queue) + "undecodable"
}
