// Package poll waits, for the programs that hold strikes to its promises and figures.
package poll

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/internal/pause"
)

// Until waits least after its first check, then a quarter longer each time, up to most.
const (
	least = 20 * time.Millisecond
	most  = 250 * time.Millisecond
)

// Until calls check until it returns nil or the time is over: ten times in the first second, later four times a second.
// The error names what.
func Until(ctx context.Context, within time.Duration, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for wait := least; ; wait = min(wait+wait/4, most) {
		err := check()
		if err == nil {
			return nil
		}
		if !pause.For(ctx, wait) {
			return fmt.Errorf("waiting %v for %s: %w", within, what, err)
		}
	}
}
