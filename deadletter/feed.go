package deadletter

import "context"

// feed hands out dead letters in their order and takes them off the queue.
type feed interface {
	// next returns n letters, or fewer if there are no more; none at the end.
	next(ctx context.Context, n int) ([]*Message, error)
	// settle takes letters off; on an error they may or may not be.
	settle([]*Message) error
	// finish gives back the rest.
	finish(ctx context.Context)
	// total is how many it hands out at most; leave tells whether one may be
	// passed over.
	total() int
	leave() bool
	vhost() string
	// missing is how many that were counted did not come.
	missing() int
}

// feedOf takes what is needed and no more: all from the first on, or a choice.
func (q *Queue) feedOf(ctx context.Context, f Filter, window, most int) (feed, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	if f.Everything() {
		return q.stream(ctx, window, most)
	}
	return q.chooseAll(ctx, f)
}
