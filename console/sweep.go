package console

import (
	"context"
	"time"
)

// sampleEvery is how often the console reads all queues, so that the first page has an answer when it opens.
const sampleEvery = 10 * time.Second

// sample reads all queues until ctx is done.
func (c *Console) sample(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		c.all.get(ctx, sampleEvery/2)
		_ = c.guarded(c.sweep)
		if c.examiner.due() {
			c.examineAll()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// idleAfter is how long the console keeps the data and the connection of a queue that no page uses.
const idleAfter = time.Minute

// sweep forgets queues and groups that no page uses.
func (c *Console) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, q := range c.queues {
		if q.idle() > idleAfter {
			delete(c.queues, name)
			c.running.Go(q.close) // which may wait for the broker
		}
	}
	for key, g := range c.grouped {
		if g.idle() > idleAfter {
			delete(c.grouped, key)
		}
	}
}
