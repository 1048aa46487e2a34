package publisher

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/strikesmq/strikes/internal/setting"
)

// Options of a [Publisher]. The zero value, like nil, means all defaults.
type Options struct {
	// Window is how many messages may be in flight: accepted and neither confirmed nor failed. Publish waits while it is
	// full. It counts messages, not bytes: a Window of large bodies holds them all in memory. If zero, 1024.
	Window int

	// ConfirmTimeout bounds the time from the first byte written of a message to its confirm. If it passes, the Publisher
	// closes the connection and everything in flight fails with ErrConnectionLost. The time in which the broker blocks the
	// connection (a memory or disk alarm) does not count. It detects a broker that no longer answers; a single call is
	// bounded by its ctx. It also bounds the opening of a channel and the wait in Close. If zero, 30 s.
	ConfirmTimeout time.Duration

	// Logger logs connections that are lost, failed and regained, never single messages. If nil, nothing is logged.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Window == 0 {
		out.Window = 1024
	}
	if out.ConfirmTimeout == 0 {
		out.ConfirmTimeout = 30 * time.Second
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

func (o Options) validate() error {
	switch {
	case o.Window < 0:
		return fmt.Errorf("publisher: %w", setting.New("Window", o.Window, "positive, or 0 for the default"))
	case o.ConfirmTimeout < 0:
		return fmt.Errorf("publisher: %w", setting.New("ConfirmTimeout", o.ConfirmTimeout, "positive, or 0 for the default"))
	}
	return nil
}
