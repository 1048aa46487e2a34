package counter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// returnsTTL is how long the store keeps how often the messages of a queue were returned.
const returnsTTL = 90 * 24 * time.Hour

// NoteReturns notes the highest number of times that a message of a quorum queue was returned to it; 0 forgets the
// number. The store keeps it for 90 days. Package deadletter refuses to read a queue once a message is near its
// delivery limit, and the refusal must not cost the delivery that would show this.
func (a *Admin) NoteReturns(ctx context.Context, vhost, queue string, highest int64) error {
	if a.refuse != nil {
		return a.refuse
	}
	key := a.returnsKey(vhost, queue)
	var err error
	if highest > 0 {
		err = a.rdb.Set(ctx, key, highest, returnsTTL).Err()
	} else {
		err = a.rdb.Del(ctx, key).Err()
	}
	if err != nil {
		return fmt.Errorf("counter: note returns, queue %q: %w", queue, a.storeError(err))
	}
	return nil
}

// Returns returns what NoteReturns noted last; 0: nothing is known.
func (a *Admin) Returns(ctx context.Context, vhost, queue string) (int64, error) {
	if a.refuse != nil {
		return 0, a.refuse
	}
	text, err := a.rdb.Get(ctx, a.returnsKey(vhost, queue)).Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("counter: returns, queue %q: %w", queue, a.storeError(err))
	}
	return number(text), nil
}

func (a *Admin) returnsKey(vhost, queue string) string {
	return a.opts.queueKey(vhost, queue) + "returns"
}
