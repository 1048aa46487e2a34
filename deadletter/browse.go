package deadletter

import (
	"context"
	"iter"
)

// Browse yields the dead letters that the filter picks, in their order and with their records. It reads the queue and
// returns all messages to it before it yields the first, so the caller holds nothing; later changes of the queue are
// not seen. It wraps ErrUnsafe where reading is not harmless. It yields an error once and then stops.
func (q *Queue) Browse(ctx context.Context, f Filter) iter.Seq2[*Message, error] {
	return q.BrowsePart(ctx, f, Bounds{})
}

// yield hands out what is on the spool. It returns false if the iteration is over.
func (c *source) yield(ctx context.Context, yield func(*Message, error) bool) bool {
	for {
		messages, err := c.read(ctx)
		if err != nil {
			yield(nil, err)
			return false
		}
		if messages == nil {
			break
		}
		for _, m := range messages {
			if !yield(m, nil) {
				return false
			}
		}
	}
	if err := incomplete(c.q.Name, c.gone); err != nil {
		yield(nil, err)
		return false
	}
	return true
}
