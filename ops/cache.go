package ops

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Cache keeps the last Overview for a while, so that readers cannot overload broker and store. It is safe for
// concurrent use.
type Cache struct {
	Collector *Collector
	Keep      time.Duration // an Overview is given out for this long; zero: it is collected each time

	collecting singleflight.Group

	mu   sync.Mutex
	last Overview
	at   time.Time // when last was complete
}

// All returns an Overview that is at most Keep old. If broker or store hang, it returns the last one when ctx is done,
// with the error of ctx. The zero Overview says that there is none yet.
func (c *Cache) All(ctx context.Context) (Overview, error) {
	c.mu.Lock()
	last, fresh := c.last, !c.at.IsZero() && time.Since(c.at) < c.Keep
	c.mu.Unlock()
	if fresh {
		return last, nil
	}
	select { // All bounds the collection; a reader that leaves must not end it for the others
	case <-c.collecting.DoChan("", func() (any, error) { return nil, c.collect(context.WithoutCancel(ctx)) }):
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, ctx.Err()
}

func (c *Cache) collect(ctx context.Context) error {
	all, err := c.Collector.All(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.last, c.at = all, time.Now()
	}
	return err
}

// Close waits for a collection under way, and closes the Collector. Do not call All afterwards.
func (c *Cache) Close() {
	_, _, _ = c.collecting.Do("", func() (any, error) { return nil, nil })
	c.Collector.Close()
}
