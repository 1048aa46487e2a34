package inbox

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Forget deletes the marks of a queue that are older than keep, and returns how many. exec runs a statement on the
// database. Each deletes 1,000 marks at most, so that none has many locks or works for long.
func (db *Database) Forget(ctx context.Context, queue string, keep time.Duration,
	exec func(ctx context.Context, query string, args ...any) (rows int64, err error)) (forgotten int64, err error) {
	if keep <= 0 {
		return 0, fmt.Errorf("inbox of queue %q: forgetting marks: keep is %v; keep them for longer than a message may be "+
			"in the queue", queue, keep)
	}
	seconds := strconv.FormatFloat(keep.Seconds(), 'f', 6, 64)
	for {
		rows, err := exec(ctx, db.forget, []byte(queue), seconds)
		if forgotten += rows; err != nil {
			return forgotten, fmt.Errorf("inbox of queue %q: forgetting marks that are older than %v: %w", queue, keep,
				db.explain(err))
		}
		if rows == 0 {
			return forgotten, nil
		}
	}
}
