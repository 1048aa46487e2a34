package deadletter

import (
	"context"
	"iter"
)

// Browse yields the dead letters that the filter picks, in their order, joined
// with their records. It reads the queue in one go and returns everything before
// it yields the first, so nothing is held while the caller takes its time; what
// is added or taken meanwhile is not seen. It wraps ErrUnsafe where looking is
// not harmless. After an error, which it yields once, it stops.
func (q *Queue) Browse(ctx context.Context, f Filter) iter.Seq2[*Message, error] {
	return q.BrowsePart(ctx, f, Bounds{})
}

// browse reads the queue onto a spool.
func (q *Queue) browse(ctx context.Context, f Filter, b Bounds) (*choice, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	return q.choose(ctx, f, q.Preview, b)
}

// yield hands out what is on the spool; false: the iteration is over.
func (c *choice) yield(ctx context.Context, yield func(*Message, error) bool) bool {
	for {
		letters, err := c.read(ctx)
		if err != nil {
			yield(nil, err)
			return false
		}
		if letters == nil {
			break
		}
		for _, l := range letters {
			if !yield(l, nil) {
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
