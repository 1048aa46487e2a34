package counter

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// undecodableTTL is how long an Undecodable outlives its last session.
const undecodableTTL = 15 * time.Minute

// Undecodable is what consumers know of a message that their AMQP client cannot decode. It ends every session that receives it.
// Its id is not known. It is forgotten 15 minutes after the last session. Its strings must not reach a terminal as they are.
type Undecodable struct {
	Sessions int64     // that it ended; NoteUndecodable ignores this
	Since    time.Time // of the first, by the clock of the store; NoteUndecodable ignores this
	At       time.Time // of the last; NoteUndecodable ignores this
	Holder   string    // the process that the last belonged to
	After    string    // id of the message delivered last before it, cut to 512 bytes; empty if there was none
	Error    string    // what the last session ended with, cut to MaxReason bytes
}

//go:embed scripts/undecodable.lua
var undecodableLua string

var noteUndecodable = redis.NewScript(undecodableLua)

// NoteUndecodable adds a session to what is known of a queue. An error leaves undecided whether it is noted; a repetition may
// count it twice.
func (c *Counter) NoteUndecodable(ctx context.Context, vhost, queue string, u Undecodable) error {
	if c.refuse != nil {
		return c.refuse
	}
	u = u.kept()
	key := []string{c.undecodableKey(vhost, queue)}
	if err := noteUndecodable.Run(ctx, c.rdb, key, undecodableTTL.Milliseconds(), u.Holder, u.After, u.Error).Err(); err != nil {
		return fmt.Errorf("counter: note undecodable, queue %q: %w", queue, c.storeError(err))
	}
	return nil
}

// Undecodable returns what was noted of a queue, nil if nothing was.
func (a *Admin) Undecodable(ctx context.Context, vhost, queue string) (*Undecodable, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	h, err := a.rdb.HGetAll(ctx, a.undecodableKey(vhost, queue)).Result()
	switch {
	case err != nil:
		return nil, fmt.Errorf("counter: undecodable, queue %q: %w", queue, a.storeError(err))
	case len(h) == 0:
		return nil, nil //nolint:nilnil // none is no error
	}
	return &Undecodable{
		Sessions: number(h["count"]), Since: millis(h["since"]), At: millis(h["at"]),
		Holder: h["holder"], After: h["after"], Error: h["error"],
	}, nil
}

// kept returns u as it is stored.
func (u Undecodable) kept() Undecodable {
	u.Holder, u.After, u.Error = cut(u.Holder, maxStoredID), cut(u.After, maxStoredID), cut(u.Error, MaxReason)
	return u
}

func (c *client) undecodableKey(vhost, queue string) string {
	return c.opts.queueKey(vhost, queue) + "undecodable"
}

// NoteUndecodable is like Counter.NoteUndecodable; it never fails.
func (m *Memory) NoteUndecodable(_ context.Context, vhost, queue string, u Undecodable) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledger(vhost, queue)
	now := time.Now()
	u = u.kept()
	u.Sessions, u.Since, u.At = 1, now, now
	if before := l.undecodable; before != nil && now.Sub(before.At) < undecodableTTL {
		u.Sessions, u.Since = before.Sessions+1, before.Since
		if u.After == "" {
			u.After = before.After
		}
	}
	l.undecodable = &u
	return nil
}

// Undecodable is like Counter.Undecodable; it never fails.
func (m *Memory) Undecodable(_ context.Context, vhost, queue string) (*Undecodable, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.ledger(vhost, queue).undecodable
	if u == nil || time.Since(u.At) >= undecodableTTL {
		return nil, nil //nolint:nilnil // none is no error
	}
	noted := *u
	return &noted, nil
}
