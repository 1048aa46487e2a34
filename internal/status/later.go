package status

import (
	"context"
	"slices"
	"time"

	"github.com/strikesmq/strikes/internal/management"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

// LaterQueue is a queue of the later lane, which all queues of a virtual host share.
type LaterQueue struct {
	Queue    string `json:"queue"`
	Messages int    `json:"messages"` // ready
}

// Lost reports whether its messages return to no queue, because their queue was gone when their time was over.
func (q LaterQueue) Lost() bool { return q.Queue == queueinfo.LaterLost }

// laterAgain is how long a queue that is missing, or may not be seen, is not asked for: each time is an error in the
// broker's log.
const laterAgain = time.Minute

// laterNames are the queues of the later lane, the shortest first.
func laterNames() (names []string) {
	for _, b := range queueinfo.Buckets {
		names = append(names, b.Name)
	}
	return append(names, queueinfo.LaterLost)
}

func isLater(queue string) bool { return slices.Contains(laterNames(), queue) }

// askLater asks for the depths of the later lane. A user who may not see a queue sees the others.
func (c *Collector) askLater(ctx context.Context, s *Status) error {
	for _, name := range laterNames() {
		if time.Now().Before(c.noLater[name]) {
			continue
		}
		q, found, err := c.depth(ctx, name)
		switch {
		case found && err == nil:
			s.Later = append(s.Later, LaterQueue{name, q.Messages})
		case err != nil && !accessRefused(err):
			return c.lost(err)
		default:
			if c.noLater == nil {
				c.noLater = map[string]time.Time{}
			}
			c.noLater[name] = time.Now().Add(laterAgain)
		}
	}
	return nil
}

// laterOf finds the later lane in a list of queues.
func laterOf(listed map[string]management.Listed) (found []LaterQueue) {
	for _, name := range laterNames() {
		if l, ok := listed[name]; ok {
			found = append(found, LaterQueue{name, l.Ready})
		}
	}
	return found
}
