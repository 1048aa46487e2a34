package deadletter

import "context"

// dropWindow is how many dead letters keep gets together.
const dropWindow = picked

// Drop takes the dead letters that the filter picks off the queue, in their order; if most is positive, at most so
// many. It first passes them to keep, several together, and takes them off once keep has returned nil: keep must have
// stored them by then. After a failure, or if the process is killed, the last that keep received may still be in the
// queue, 16 at most.
func (q *Queue) Drop(ctx context.Context, f Filter, most int, keep func([]*Message) error) (Result, error) {
	if err := q.validate(); err != nil {
		return Result{}, err
	}
	t := &taking{q: q, doing: "dropping", window: dropWindow}
	t.store = func(_ context.Context, window []*Message) ([]*Message, error) {
		if err := keep(window); err != nil {
			return nil, err
		}
		return window, nil
	}
	if err := t.begin(ctx, f, most); err != nil {
		return Result{}, err
	}
	err := t.run(ctx)
	return t.result, err
}
