package ops

import (
	"context"
	"slices"
	"time"

	"github.com/strikesmq/strikes/internal/broker"
)

// DelayQueue is a delay queue, which all queues of a virtual host share.
type DelayQueue struct {
	Queue    string `json:"queue"`
	Messages int    `json:"messages"` // ready
}

// Lost reports whether its messages return to no queue, because their queue was gone when their time was over.
func (q DelayQueue) Lost() bool { return q.Queue == broker.DelayLost }

// delayAgain is how long a queue that is missing, or may not be seen, is not asked for: each time is an error in the
// broker's log.
const delayAgain = time.Minute

// delayNames are the delay queues, the shortest first.
func delayNames() (names []string) {
	for _, b := range broker.Buckets {
		names = append(names, b.Name)
	}
	return append(names, broker.DelayLost)
}

func isDelayQueue(queue string) bool { return slices.Contains(delayNames(), queue) }

// askDelayQueues asks for the depths of the delay queues. A user who may not see a queue sees the others.
func (c *Collector) askDelayQueues(ctx context.Context, s *Status) error {
	for _, name := range delayNames() {
		if time.Now().Before(c.noDelay[name]) {
			continue
		}
		q, found, err := c.depth(ctx, name)
		switch {
		case found && err == nil:
			s.DelayQueues = append(s.DelayQueues, DelayQueue{name, q.Messages})
		case err != nil && !accessRefused(err):
			return c.lost(err)
		default:
			if c.noDelay == nil {
				c.noDelay = map[string]time.Time{}
			}
			c.noDelay[name] = time.Now().Add(delayAgain)
		}
	}
	return nil
}

// delayOf finds the delay queues in a list of queues.
func delayOf(listed map[string]broker.Listed) (found []DelayQueue) {
	for _, name := range delayNames() {
		if l, ok := listed[name]; ok {
			found = append(found, DelayQueue{name, l.Ready})
		}
	}
	return found
}
