package deadletter

import "context"

// source hands out dead letters in their order and takes them off the queue.
type source interface {
	// next returns n messages, or fewer if there are no more; none at the end.
	next(ctx context.Context, n int) ([]*Message, error)
	// settle takes messages off. After an error they may or may not be off.
	settle([]*Message) error
	// finish returns the others to the queue.
	finish(ctx context.Context)
	// total returns how many messages it hands out at most.
	total() int
	// canSkip reports whether a message can stay in the queue while later ones are taken off.
	canSkip() bool
	// missing returns how many counted messages did not arrive.
	missing() int
	vhost() string
}

// source opens the cheapest source: a stream from the head of the queue, or a choice of what the filter picks.
func (q *Queue) source(ctx context.Context, f Filter, window, most int) (source, error) {
	if f.Everything() {
		return q.stream(ctx, window, most)
	}
	return q.chooseAll(ctx, f)
}
