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
func (q *Queue) Browse(ctx context.Context, f Filter) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		c, err := q.look(ctx, f)
		if err != nil {
			yield(nil, err)
			return
		}
		defer c.spool.close()
		for {
			letters, err := c.read(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if letters == nil {
				if err := incomplete(q.Name, c.gone); err != nil {
					yield(nil, err)
				}
				return
			}
			for _, l := range letters {
				if !yield(l, nil) {
					return
				}
			}
		}
	}
}

// look reads the queue onto a spool and lets go of it.
func (q *Queue) look(ctx context.Context, f Filter) (*choice, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	c, err := q.choose(ctx, f, q.Preview)
	if err == nil {
		c.s.close()
	}
	return c, err
}
