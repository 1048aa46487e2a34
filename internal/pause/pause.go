// Package pause waits.
package pause

import (
	"context"
	"time"
)

// Outlive returns a context that is done some time after ctx is, and most from now at the latest.
func Outlive(ctx context.Context, after, most time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(after, cancel) })
	return late, func() { stop(); cancel() }
}

// For waits for d. It returns false if ctx is done first.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
