package counter

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

// undecodableTTL is how long an Undecodable is kept after its last session.
const undecodableTTL = 15 * time.Minute

// Undecodable is what consumers know of a message that their AMQP client cannot decode, or that the broker cannot
// convert to AMQP 0.9.1. It ends every session that receives it, and its id is not known. The store keeps it for 15
// minutes after the last session. Do not print its strings on a terminal unescaped. NoteUndecodable ignores Sessions,
// Since and At.
type Undecodable struct {
	Sessions int64     // that the message ended
	Since    time.Time // of the first session, by the store's clock
	At       time.Time // of the last session, by the store's clock
	Holder   string    // the process of the last session
	After    string    // id of the message delivered before it, cut to 512 bytes; empty if there was none
	Error    string    // that ended the last session, cut to MaxReason bytes

	// Unconverted says that the broker ended the session with 541. It cannot convert the message, which was published
	// over AMQP 1.0.
	Unconverted bool
}

//go:embed scripts/undecodable.lua
var undecodableLua string

var noteUndecodable = redis.NewScript(undecodableLua)

// NoteUndecodable adds a session that a message ended. After an error it may or may not be noted; a repetition may count it
// twice.
func (c *Counter) NoteUndecodable(ctx context.Context, vhost, queue string, u Undecodable) error {
	if c.refuse != nil {
		return c.refuse
	}
	u = u.kept()
	key := []string{c.undecodableKey(vhost, queue)}
	if err := noteUndecodable.Run(ctx, c.rdb, key, undecodableTTL.Milliseconds(), u.Holder, u.After, u.Error, mark(u.Unconverted)).Err(); err != nil {
		return fmt.Errorf("counter: note undecodable, queue %q: %w", queue, c.storeError(err))
	}
	return nil
}

// Undecodable returns what consumers noted for a queue, nil if nothing.
func (a *Admin) Undecodable(ctx context.Context, vhost, queue string) (*Undecodable, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	h, err := a.rdb.HGetAll(ctx, a.undecodableKey(vhost, queue)).Result()
	if err != nil {
		return nil, fmt.Errorf("counter: undecodable, queue %q: %w", queue, a.storeError(err))
	}
	return undecodableOf(h), nil
}

func undecodableOf(h map[string]string) *Undecodable {
	if len(h) == 0 {
		return nil
	}
	return &Undecodable{
		Sessions: number(h["count"]), Since: millis(h["since"]), At: millis(h["at"]),
		Holder: h["holder"], After: h["after"], Error: h["error"], Unconverted: h["unconverted"] == mark(true),
	}
}

// mark is how the store keeps whether the broker could not convert a message.
func mark(unconverted bool) string {
	if unconverted {
		return "1"
	}
	return ""
}

// kept returns u as the store keeps it.
func (u Undecodable) kept() Undecodable {
	u.Holder, u.After, u.Error = printable.Cut(u.Holder, rules.MaxStoredID), printable.Cut(u.After, rules.MaxStoredID), printable.Cut(u.Error, MaxReason)
	return u
}

func (c *client) undecodableKey(vhost, queue string) string {
	return c.opts.queueKey(vhost, queue) + "undecodable"
}
