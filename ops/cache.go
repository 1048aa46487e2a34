package ops

import (
	"context"
	"sync"
	"time"
)

// Cache keeps the last Overview for a while, so that readers cannot overload broker and store. It is safe for
// concurrent use.
type Cache struct {
	Queues *Queues
	Keep   time.Duration // an Overview is given out for this long; zero: it is collected each time

	mu   sync.Mutex
	last Overview
	at   time.Time     // when last was complete
	now  chan struct{} // closed at the end of the call of All that readers wait for; nil: there is none
}

// All returns an Overview that is at most Keep old. If broker or store hang, it returns the last one when ctx is done,
// with the error of ctx. The zero Overview says that there is none yet.
func (c *Cache) All(ctx context.Context) (Overview, error) {
	c.mu.Lock()
	if !c.at.IsZero() && time.Since(c.at) < c.Keep {
		defer c.mu.Unlock()
		return c.last, nil
	}
	if c.now == nil {
		c.now = make(chan struct{})
		go c.collect(context.WithoutCancel(ctx), c.now) // All bounds it; a reader that leaves must not end it for the others
	}
	now := c.now
	c.mu.Unlock()
	select {
	case <-now:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, ctx.Err()
}

func (c *Cache) collect(ctx context.Context, now chan struct{}) {
	all, err := c.Queues.All(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.last, c.at = all, time.Now()
	}
	c.now = nil
	close(now)
}

// Close waits for a collection under way, and closes the Queues. Nothing may call All any more.
func (c *Cache) Close() {
	c.mu.Lock()
	now := c.now
	c.mu.Unlock()
	if now != nil {
		<-now
	}
	c.Queues.Close()
}
