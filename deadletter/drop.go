package deadletter

import "context"

// atOnce is how many dead letters are given to be kept at once.
const atOnce = picked

// Drop takes dead letters that the filter picks off the queue, most of them if
// that is positive, in their order. Each is first given to keep, with others,
// and taken off once keep has returned nil: keep must have them safe by then. If
// the process is killed, or something goes wrong, the last that keep was given,
// 16 at most, may still be in the queue.
func (q *Queue) Drop(ctx context.Context, f Filter, most int, keep func([]*Message) error) (Result, error) {
	source, err := q.feedOf(ctx, f, atOnce, most)
	if err != nil {
		return Result{}, err
	}
	d := &dropping{q: q, feed: source, keep: keep, total: source.total(), takings: takings{records: q.Records, vhost: source.vhost()}}
	if most > 0 {
		d.total = min(d.total, most)
	}
	err = d.all(ctx)
	d.takings.finish(ctx)
	source.finish(ctx)
	d.result.RecordsErr = d.takings.err
	return d.result, err
}

// dropping is a Drop under way.
type dropping struct {
	q       *Queue
	feed    feed
	keep    func([]*Message) error
	total   int
	takings takings
	result  Result
}

func (d *dropping) all(ctx context.Context) error {
	for d.result.Done < d.total && ctx.Err() == nil {
		letters, err := d.feed.next(ctx, min(atOnce, d.total-d.result.Done))
		if err != nil {
			return err
		}
		if len(letters) == 0 {
			break
		}
		if err := d.keep(letters); err != nil {
			return err
		}
		if err := d.feed.settle(letters); err != nil {
			d.result.unsure(letters)
			return err
		}
		d.result.Done += len(letters)
		d.takings.add(letters)
		d.takings.tell(ctx)
		d.q.progress("dropping", d.result.Done, d.total)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return incomplete(d.q.Name, d.feed.missing())
}
