package main

import (
	"context"
	"fmt"
	"time"
)

// pause waits for d, or until ctx is done, which it reports as false.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// eventually polls until check has no error, or the time is over.
func eventually(ctx context.Context, within time.Duration, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("waiting %v for %s: %w", within, what, err)
		}
	}
}
