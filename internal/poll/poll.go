// Package poll waits, for the programs that hold strikes to its promises and figures.
package poll

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/internal/pause"
)

// every is how long Until waits between two checks.
const every = 50 * time.Millisecond

// Until calls check, 20 times a second, until it returns nil or the time is over. The error names what.
func Until(ctx context.Context, within time.Duration, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if !pause.For(ctx, every) {
			return fmt.Errorf("waiting %v for %s: %w", within, what, err)
		}
	}
}
